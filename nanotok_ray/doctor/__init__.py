"""The doctor: is this machine fit for a job, and are its folders, sources and settings?

A check gives findings and raises nothing. Does not know Ray: what a cluster is asked lies in
`cluster/cluster_check.py`.
"""
