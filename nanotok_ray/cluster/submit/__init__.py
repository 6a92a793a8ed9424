"""Submits a recipe to the job server of a cluster, and follows the job to its end.

The input is a recipe and an address. The output is the log of the job and an exit code.
"""

from nanotok_ray.cluster.submit.ray_jobs import RayJobs
from nanotok_ray.cluster.submit.shipping import JobCommand, check_id, ship, variables_of
from nanotok_ray.cluster.submit.submission import (
    FollowedJob,
    Follower,
    JobLog,
    JobState,
    JobSummary,
    Started,
    Starter,
    Submission,
    ending_of,
)

__all__ = [
    "FollowedJob",
    "Follower",
    "JobCommand",
    "JobLog",
    "JobState",
    "JobSummary",
    "RayJobs",
    "Started",
    "Starter",
    "Submission",
    "check_id",
    "ending_of",
    "ship",
    "variables_of",
]
