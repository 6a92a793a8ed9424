"""Reads the paths of a recipe into documents in one order, and plans their slices.

The input is a `Recipe` and the file listings of storage. The output is a `Plan` (files, splits,
slices) and, for each slice, batches of documents with counts of quarantined ones.
"""

from nanotok_ray.sources.batch import Batch
from nanotok_ray.sources.draft import SavedRecipe, draft_recipe, extend_recipe
from nanotok_ray.sources.draft_sources import Draft, KnownSource, NamedPaths, find_paths
from nanotok_ray.sources.duplicates import (
    DUPLICATE,
    LISTS,
    NUM_BUCKETS,
    HashRange,
    find_duplicates,
    hash_slice,
    write_lists,
)
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.named_files import NamedFiles, ReadingRules, find_named
from nanotok_ray.sources.names import suffix_format
from nanotok_ray.sources.piece_reader import read_piece
from nanotok_ray.sources.plan import (
    Plan,
    Slice,
    SourceOverview,
    decoded_bytes,
    overview,
    plan_from_json,
    plan_to_json,
    slices_of,
)
from nanotok_ray.sources.plan_build import EarlierPlan, make_plan
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
from nanotok_ray.sources.quarantine import (
    BY_CHOICE,
    COUNTED_SUFFIX,
    DROPPED,
    QUARANTINE,
    SKIPPED,
    TAIL,
    FirstBad,
    Quarantined,
    QuarantineEntry,
    check_limits,
    entry_of,
    format_first_bad,
    is_quarantine_file,
    locations_of,
    reason_of,
    write_quarantine,
)
from nanotok_ray.sources.resolve import OnLook, listed_problems, resolve
from nanotok_ray.sources.sample import check_sample
from nanotok_ray.sources.slices import (
    OTHER_REASONS,
    AllBadError,
    SliceReading,
    read_slices,
    tried,
)
from nanotok_ray.sources.stored import TimeIsUpError, is_damage
from nanotok_ray.sources.transform_code import transform_of
from nanotok_ray.sources.unusable import UnusableFile, without_unusable

__all__ = [
    "BY_CHOICE",
    "COUNTED_SUFFIX",
    "DROPPED",
    "DUPLICATE",
    "LISTS",
    "NUM_BUCKETS",
    "OTHER_REASONS",
    "QUARANTINE",
    "SKIPPED",
    "TAIL",
    "AllBadError",
    "Batch",
    "DocumentRules",
    "Draft",
    "EarlierPlan",
    "FirstBad",
    "HashRange",
    "KnownSource",
    "NamedFiles",
    "NamedPaths",
    "OnLook",
    "Piece",
    "Plan",
    "QuarantineEntry",
    "Quarantined",
    "ReadingChange",
    "ReadingRules",
    "SavedRecipe",
    "Slice",
    "SliceChanges",
    "SliceReading",
    "SourceChanges",
    "SourceLoss",
    "SourceOverview",
    "TimeIsUpError",
    "UnusableFile",
    "changes",
    "check_limits",
    "check_sample",
    "decoded_bytes",
    "draft_recipe",
    "entry_of",
    "extend_recipe",
    "find_duplicates",
    "find_named",
    "find_paths",
    "format_first_bad",
    "hash_slice",
    "is_damage",
    "is_quarantine_file",
    "listed_problems",
    "locations_of",
    "losses",
    "make_plan",
    "overview",
    "plan_from_json",
    "plan_to_json",
    "read_piece",
    "read_slices",
    "reading_changes",
    "reason_of",
    "resolve",
    "slice_changes",
    "slices_of",
    "suffix_format",
    "transform_of",
    "tried",
    "without_unusable",
    "write_lists",
    "write_quarantine",
]
