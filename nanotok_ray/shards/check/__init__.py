"""The check of a slice: its record, its files, and its documents compared with their sources.

The input is a slice with its record and the output folder, or the rendered documents while they
are written. The output is a list of problems, or an error that names the first one. There are two
depths: a sample of the documents, and all documents. The encoder and the renderer are not used:
ids are decoded and compared with those of tiktoken, and conversations are rendered by the
reference implementation. The package repairs nothing; the next run of the job does.
"""

from nanotok_ray.shards.check.files import check_files
from nanotok_ray.shards.check.record import listed_problems, record_problems
from nanotok_ray.shards.check.sample import SampleCheck, choose_slices
from nanotok_ray.shards.check.slice import (
    CheckFailure,
    SliceCheck,
    SliceWork,
    check_slice,
    check_slices,
    work_of,
)

__all__ = [
    "CheckFailure",
    "SampleCheck",
    "SliceCheck",
    "SliceWork",
    "check_files",
    "check_slice",
    "check_slices",
    "choose_slices",
    "listed_problems",
    "record_problems",
    "work_of",
]
