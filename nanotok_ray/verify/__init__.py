"""Verification: is the output what its records say, and do its records cover the plan?

Takes an output folder (and, before it is published, the manifest to be), gives a list of problems.
Repairs nothing: the job does, when it is run again.

output: all of it, in order. inputs: manifest, plan and tokenizer. record: a record by itself.
work: one slice, wherever it runs. shard, file_check: its files. sample, deep: its sources.
"""

from nanotok_ray.verify.output import Runner, verify_output
from nanotok_ray.verify.record import record_problems
from nanotok_ray.verify.result import Verification
from nanotok_ray.verify.shard import check_files
from nanotok_ray.verify.work import (
    Result,
    SliceCheck,
    SliceWork,
    Unchecked,
    check_here,
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
    "check_here",
    "check_slice",
    "record_problems",
    "verify_output",
]
