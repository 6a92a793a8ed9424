"""The plan: the frozen list of inputs, their split, and the slices they are cut into.

`make_plan` reads what storage says of the inputs (names, sizes), parquet footers and the first
bytes of other files, of conversations the first document, and of up to five files of each source
the first 20 documents; it starts nothing. Does not know how a slice is counted or tokenized.
"""

from nanotok_ray.plan.build import make_plan
from nanotok_ray.plan.changes import (
    ReadingChange,
    SliceChanges,
    SourceChanges,
    SourceLoss,
    changes,
    losses,
    reading_changes,
    slice_changes,
)
from nanotok_ray.plan.model import Plan, PlannedSource, Slice, estimated_bytes
from nanotok_ray.plan.overview import decoded_bytes, overview
from nanotok_ray.plan.text import plan_from_json, plan_to_json

__all__ = [
    "Plan",
    "PlannedSource",
    "ReadingChange",
    "Slice",
    "SliceChanges",
    "SourceChanges",
    "SourceLoss",
    "changes",
    "decoded_bytes",
    "estimated_bytes",
    "losses",
    "make_plan",
    "overview",
    "plan_from_json",
    "plan_to_json",
    "reading_changes",
    "slice_changes",
]
