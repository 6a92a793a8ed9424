"""What is not as it was when the plan was frozen, or the output published: said before it is done.

Compares plans and settings; reads no input. Does not know which slices are done.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.manifest import MANIFEST_FORMAT, MANIFEST_NAME, from_json
from nanotok_ray.plan import Plan, changes, reading_changes, slice_changes
from nanotok_ray.shards import ShardSettings
from nanotok_ray.storage import Folder


def plan_changes(before: Plan | None, after: Plan) -> dict[str, Any] | None:
    """Compare with the plan that was frozen before, in plain values; None if there is none."""
    if before is None:
        return None
    slices = slice_changes(before, after)
    return {
        "sources": [each.to_dict() for each in changes(before, after)],
        "reading": [each.to_dict() for each in reading_changes(before, after)],
        "slices": {"same": slices.same, "new": slices.new, "gone": slices.gone},
        "slice_bytes": [before.slice_bytes, after.slice_bytes],
    }


def published_settings(out: Folder) -> Mapping[str, Any]:
    """Give the settings of each source as the manifest has them; empty if there is none."""
    try:
        data = out.read_bytes(MANIFEST_NAME)
        manifest = from_json(data, name=MANIFEST_NAME, expected_format=MANIFEST_FORMAT)
        return dict(manifest["settings"])
    except (FileNotFoundError, CorruptOutputError, KeyError, TypeError, ValueError):
        return {}


def setting_changes(
    before: Mapping[str, Any], settings: Mapping[str, ShardSettings]
) -> Iterator[str]:
    """Say what of tokenizer and recipe is not as it was published; it redoes shards.

    An output that was not finished says nothing: its records, one by one, decide.
    """
    for name, own in settings.items() if before else ():
        yield from _told(name, before.get(name), own)


def _told(name: str, before: object, own: ShardSettings) -> Iterator[str]:
    if not isinstance(before, Mapping):
        yield f"source {name!r} is new"
        return
    for field, value in own.to_dict().items():
        old = before.get(field)
        if old == value:
            continue
        if field == "tokenizer_sha256":
            yield f"source {name!r}: the tokenizer is {value[:16]}, it was {str(old)[:16]}"
        else:
            yield f"source {name!r}: {field} is {value}, it was {old}"
