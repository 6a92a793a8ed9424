"""The doctor: is this machine fit for a job, and are its folders, sources and settings?

A check gives findings and raises nothing. Does not know Ray: what a cluster is asked lies in
`cluster/cluster_check.py`.
"""

from nanotok_ray.doctor.examination import examine
from nanotok_ray.doctor.finding import Finding, Status
from nanotok_ray.doctor.secrets import hidden

__all__ = ["Finding", "Status", "examine", "hidden"]
