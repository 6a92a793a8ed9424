"""Verification: whether an output is what its records say, and whether they cover the plan.

Input is an output folder. Output is a list of problems. The package repairs nothing: the job does
when it runs again.
"""

from nanotok_ray.shards.verify.output import Runner, Verification, verify_output
from nanotok_ray.shards.verify.record import record_problems
from nanotok_ray.shards.verify.shard import check_files
from nanotok_ray.shards.verify.work import (
    Result,
    SliceCheck,
    SliceWork,
    Unchecked,
    check_slice,
)

__all__ = [
    "Result",
    "Runner",
    "SliceCheck",
    "SliceWork",
    "Unchecked",
    "Verification",
    "check_files",
    "check_slice",
    "record_problems",
    "verify_output",
]
