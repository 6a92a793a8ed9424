"""Submitting a recipe to the job server of a cluster, and following the job to its end.

Input is a recipe and an address. Output is the log of the job and an exit code.
"""
