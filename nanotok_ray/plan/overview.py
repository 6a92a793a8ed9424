"""A plan in numbers: per source its files, bytes, documents, splits and slices, as plain values.

Says what the plan knows and nothing that was done; null where it knows nothing.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nanotok_ray.plan.model import Plan, PlannedSource, estimated_bytes
from nanotok_ray.sources import SourceFile

SHOWN_FILES = 5


def overview(plan: Plan) -> list[dict[str, Any]]:
    """Give the numbers of each source, JSON-able, in the order of the recipe."""
    return [_source(source) for source in plan.sources]


def _source(source: PlannedSource) -> dict[str, Any]:
    splits = {"train": 0, "val": 0}
    for each in source.slices:
        splits[each.split] += 1
    groups = [each for each in source.slices if len(each.files) > 1]
    val = [file.path for file, own in zip(source.files, source.splits, strict=True) if own == "val"]
    return {
        "name": source.name,
        "kind": source.kind,
        "root": source.root,
        "format": source.format,
        "dialects": _dialects(source),
        "split": source.rule,
        "files": len(source.files),
        "stored_bytes": sum(file.size for file in source.files),
        "bytes": decoded_bytes(source.files),
        "documents": _documents(source),
        "slices": splits,
        "largest_slice": max((each.num_bytes for each in source.slices), default=0),
        "groups": {
            "groups": len(groups),
            "files": len({file.path for each in groups for file in each.files}),
        },
        "val": {"files": len(val), "first": val[:SHOWN_FILES]},
    }


def _dialects(source: PlannedSource) -> dict[str, int]:
    """Count the files of each dialect, sorted by name; text has none."""
    found = Counter(file.dialect for file in source.files if file.dialect is not None)
    return dict(sorted(found.items()))


def decoded_bytes(files: Sequence[SourceFile]) -> int:
    """Estimate the decoded bytes of files, each once even if both splits read it."""
    whole = (
        file.piece(0, len(file.layout) if file.format == "parquet" else file.size) for file in files
    )
    return sum(estimated_bytes(file, piece) for file, piece in zip(files, whole, strict=True))


def _documents(source: PlannedSource) -> int | None:
    """Count the documents, bad ones included, where the format says without reading them."""
    if source.format == "parquet":
        return sum(group.rows for file in source.files for group in file.layout)
    return len(source.files) if source.format == "document" else None
