"""The check of a slice: its record, its files, and its documents beside those of their sources.

Input is a slice, its record and the output folder; while a slice is written, what was rendered of
it. Output is a list of problems, or an error that names the first one. No check of ids uses the
encoder that made them: it decodes, asks tiktoken, and reads conversations in plain Python. The
package repairs nothing: the job does when it runs again.
"""

from nanotok_ray.shards.check.record import record_problems
from nanotok_ray.shards.check.shard import check_files
from nanotok_ray.shards.check.slice import (
    Result,
    SliceCheck,
    SliceWork,
    Unchecked,
    check_slice,
)

__all__ = [
    "Result",
    "SliceCheck",
    "SliceWork",
    "Unchecked",
    "check_files",
    "check_slice",
    "record_problems",
]
