"""From the paths of a recipe to documents in one order, and the plan that cuts them into slices.

Input is a `Recipe` and what storage reports of its files. Output is a `Plan` (files, splits,
slices) and, slice by slice, batches of documents with an account of what was quarantined.
"""

from nanotok_ray.sources.batch import BadDocument, Batch
from nanotok_ray.sources.draft import Draft, draft_recipe
from nanotok_ray.sources.files import Piece, ResolvedSource, RowGroup, SourceFile
from nanotok_ray.sources.piece_reader import PieceReader, read_piece
from nanotok_ray.sources.plan import (
    Plan,
    PlannedSource,
    Slice,
    decoded_bytes,
    estimated_bytes,
    overview,
    plan_from_json,
    plan_to_json,
)
from nanotok_ray.sources.plan_build import make_plan
from nanotok_ray.sources.plan_changes import (
    ReadingChange,
    SliceChanges,
    SourceChanges,
    SourceLoss,
    changes,
    losses,
    reading_changes,
    slice_changes,
)
from nanotok_ray.sources.resolve import resolve
from nanotok_ray.sources.sample import check_sample

__all__ = [
    "BadDocument",
    "Batch",
    "Draft",
    "Piece",
    "PieceReader",
    "Plan",
    "PlannedSource",
    "ReadingChange",
    "ResolvedSource",
    "RowGroup",
    "Slice",
    "SliceChanges",
    "SourceChanges",
    "SourceFile",
    "SourceLoss",
    "changes",
    "check_sample",
    "decoded_bytes",
    "draft_recipe",
    "estimated_bytes",
    "losses",
    "make_plan",
    "overview",
    "plan_from_json",
    "plan_to_json",
    "read_piece",
    "reading_changes",
    "resolve",
    "slice_changes",
]
