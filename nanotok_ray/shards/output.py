"""The output folder as a whole: totals, shards.idx and manifest."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.formats import (
    MANIFEST_FORMAT,
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    SHARDS_INDEX_NAME,
    TOKENIZER_FILE,
    ShardRow,
    digest_of,
    pack_shards_index,
    to_json,
)
from nanotok_ray.shards.records import Record
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.unused import UNUSED_TEXT, most_frequent
from nanotok_ray.sources import LOST_ROWS, Plan, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

COUNTED = (
    "text_bytes",
    "tokens",
    "special_text",
    "over_max_tokens",
    "truncated",
    "trainable_tokens",
    "without_trainable_token",
    "images",
    "blank_lines",
)
"""Fields of a record whose sums are in the manifest."""

_BY_NAME = ("quarantined", "roles", "special_tokens")
"""Fields with numbers by name, whose names differ between records."""


def totals_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Sum (source and split, values of a record); the sum of all of them is `all`."""
    totals: dict[str, Any] = {"all": _empty()}
    for name, values in records:
        group_total = totals.setdefault(name, _empty())
        for total in (totals["all"], group_total):
            _add(total, values)
    for total in totals.values():
        total |= {group: dict(sorted(total[group].items())) for group in _BY_NAME}
        if UNUSED_TEXT in total:
            total[UNUSED_TEXT] = most_frequent(total[UNUSED_TEXT])
    return totals


def _empty() -> dict[str, Any]:
    flow = {"in": 0, "out": 0, "quarantined": 0}
    proof = {"documents": 0, "bytes": 0, "encoded_again": 0, "not_encoded_again": {}}
    return {
        "documents": dict(flow),
        "bytes": dict(flow),
        "proof": proof,
        **{group: {} for group in _BY_NAME},
        **dict.fromkeys(COUNTED, 0),
    }


def _add(total: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name in COUNTED:
        total[name] += values[name]
    for group in ("documents", "bytes", "proof", *_BY_NAME):
        _add_numbers(total[group], values[group])
    if LOST_ROWS in values:
        total[LOST_ROWS] = total.get(LOST_ROWS, 0) + values[LOST_ROWS]
    if UNUSED_TEXT in values:
        _add_numbers(total.setdefault(UNUSED_TEXT, {}), values[UNUSED_TEXT])


def _add_numbers(total: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, number in values.items():
        if isinstance(number, Mapping):
            _add_numbers(total[name], number)
        else:
            total[name] = total.get(name, 0) + number


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """The files that are written last: shards.idx, then the manifest that names it."""

    manifest: dict[str, Any]
    shards_index: bytes

    @property
    def manifest_bytes(self) -> bytes:
        """The bytes of manifest.json."""
        return to_json(self.manifest)

    def publish(self, folder: Folder, *, check: Callable[[], object] = lambda: None) -> None:
        """Write shards.idx, then the manifest; `check` is called directly before each appears."""
        folder.write_whole(SHARDS_INDEX_NAME, self.shards_index, check=check)
        folder.write_whole(MANIFEST_NAME, self.manifest_bytes, check=check)

    def withdraw(self, folder: Folder, *, is_in_use: bool) -> None:
        """Remove this manifest if it is published and another run has changed the output.

        Args:
            folder: The output folder.
            is_in_use: Whether the other run has not ended: it will publish its own manifest.
        """
        try:
            if folder.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES) != self.manifest_bytes:
                return
            is_whole = (
                folder.sha256(SHARDS_INDEX_NAME) == self.manifest["shards_index_sha256"]
                and folder.sha256(TOKENIZER_FILE) == self.manifest["tokenizer_sha256"]
            )
        except FileNotFoundError:
            is_whole = False
        if is_in_use or not is_whole:
            folder.remove(MANIFEST_NAME)


def assemble(
    plan: Plan,
    records: Sequence[Record],
    *,
    settings: Mapping[str, ShardSettings],
    tokenizer: Tokenizer,
) -> Output:
    """Build shards.idx and the manifest from the records of all slices, in plan order."""
    names = [source.name for source in plan.sources]
    rows = list(_shard_rows(plan, records, tokenizer.model.id_bytes))
    index = pack_shards_index(rows, sources=names)
    manifest = {
        "format": MANIFEST_FORMAT,
        **manifest_facts(plan, settings=settings, tokenizer=tokenizer),
        "plan_sha256": hashlib.sha256(plan_to_json(plan)).hexdigest(),
        "records_sha256": digest_of(record.sha256 for record in records),
        "shards_index_sha256": hashlib.sha256(index).hexdigest(),
        "slices": len(records),
        "shards": len(rows),
        "totals": totals_of(
            (f"{slice_.source}/{slice_.split}", record.values)
            for slice_, record in zip(plan.slices(), records, strict=True)
        ),
    }
    return Output(manifest=manifest, shards_index=index)


def manifest_facts(
    plan: Plan, *, settings: Mapping[str, ShardSettings], tokenizer: Tokenizer
) -> dict[str, Any]:
    """Return the sections of a manifest on the sources and the tokenizer."""
    return {
        "sources": [source.name for source in plan.sources],
        "kinds": {source.name: source.kind for source in plan.sources},
        "tokenizer_sha256": tokenizer.sha256,
        "special_tokens": tokenizer.special_tokens,  # in the order of ids
        "item_bytes": tokenizer.model.id_bytes,
        "num_ids": tokenizer.model.num_ids,
        "settings": {name: source_settings.to_dict() for name, source_settings in settings.items()},
    }


def _shard_rows(plan: Plan, records: Sequence[Record], item_bytes: int) -> Iterator[ShardRow]:
    first: dict[tuple[str, str], int] = {}
    for slice_, record in zip(plan.slices(), records, strict=True):
        group = (slice_.source, slice_.split)
        sizes = {file["name"]: file["size"] for file in record.values["files"]}
        for shard in record.values["shards"]:
            name = shard["name"]
            yield ShardRow(
                source=slice_.source,
                split=slice_.split,
                name=name,
                item_bytes=item_bytes,
                first_document=first.get(group, 0),
                documents=shard["documents"],
                tokens=shard["tokens"],
                bin_bytes=sizes[f"{name}.bin"],
                idx_bytes=sizes[f"{name}.idx"],
                mask_bytes=sizes.get(f"{name}.mask", 0),
                ids_bytes=sizes.get(f"{name}.ids", 0),
                images_bytes=sizes.get(f"{name}.images", 0),
                record_sha256=record.sha256,
            )
            first[group] = first.get(group, 0) + shard["documents"]


def settings_from(manifest: Mapping[str, Any]) -> dict[str, ShardSettings]:
    """Return the settings of each source as a manifest states them."""
    return {name: ShardSettings.from_dict(values) for name, values in manifest["settings"].items()}
