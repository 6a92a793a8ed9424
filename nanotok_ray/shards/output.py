"""The output folder as a whole: records, totals, shards.idx and manifest."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    MANIFEST_FORMAT,
    MANIFEST_NAME,
    MAX_RECORD_BYTES,
    RECORD_FORMAT,
    RECORDS,
    SHARDS_INDEX_NAME,
    ShardRow,
    check_record_shape,
    digest_of,
    from_json,
    pack_shards_index,
    to_json,
)
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.sources import QUARANTINE, SKIPPED, Plan, Slice, plan_to_json
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


def _add_numbers(total: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, number in values.items():
        if isinstance(number, Mapping):
            _add_numbers(total[name], number)
        else:
            total[name] = total.get(name, 0) + number


READERS = 64
"""The number of records to read in parallel, because reading a remote file is mostly waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record as read: its values, and the sha256 (hex) of its bytes."""

    name: str
    values: dict[str, Any]
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """The files that are written last: shards.idx, then the manifest that names it."""

    manifest: dict[str, Any]
    shards_index: bytes

    @property
    def manifest_bytes(self) -> bytes:
        """The bytes of manifest.json."""
        return to_json(self.manifest)

    def publish(self, folder: Folder) -> None:
        """Write shards.idx, then the manifest."""
        folder.write_whole(SHARDS_INDEX_NAME, self.shards_index)
        folder.write_whole(MANIFEST_NAME, self.manifest_bytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """A slice with the key that its record must have."""

    slice: Slice
    key: str

    @property
    def record_name(self) -> str:
        """Path of the record in the output folder."""
        slice_ = self.slice
        return f"{RECORDS}{slice_.source}/{slice_.split}/{slice_.name_for(self.key)}.json"


def expected_records(plan: Plan, settings: Mapping[str, ShardSettings]) -> Iterator[Expected]:
    """Yield the slices of a plan in order, each with its key under the settings of its source."""
    for slice_ in plan.slices():
        yield Expected(slice=slice_, key=settings[slice_.source].key(slice_))


def read_record(folder: Folder, name: str) -> Record | None:
    """Return a record, or None if it does not exist.

    Raises:
        CorruptOutputError: The file is not a record of this version.
    """
    try:
        data = folder.read_bytes(name, limit=MAX_RECORD_BYTES)
    except FileNotFoundError:
        return None
    values = from_json(data, name=folder.join(name), expected_format=RECORD_FORMAT)
    check_record_shape(values, name=folder.join(name), of_shards=name.startswith(RECORDS))
    return Record(name=name, values=values, sha256=hashlib.sha256(data).hexdigest())


def finished_records(
    folder: Folder, wanted: Sequence[tuple[str, str]], *, below: Iterable[str]
) -> list[Record | None]:
    """Return `finished_record` for each (name, key), at the cost of a few listings.

    `below` are prefixes, one of which the names of all records and files have.
    """
    sizes = {name: size for prefix in below for name, size in folder.sizes(prefix).items()}

    def read(item: tuple[str, str]) -> Record | None:
        name, key = item
        record = _record_of(folder, name, key=key) if name in sizes else None
        if record is None:
            return None
        is_there = all(sizes.get(file["name"]) == file["size"] for file in record.values["files"])
        return record if is_there else None

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        return list(pool.map(read, wanted))


def finished_slices(out: Folder, expected: Sequence[Expected]) -> list[Record | None]:
    """Return the record of each slice, or None if the record or a file is missing."""
    sources = sorted({item.slice.source for item in expected})
    below = [f"{top}{source}/" for source in sources for top in ("", RECORDS, QUARANTINE)]
    return finished_records(out, [(item.record_name, item.key) for item in expected], below=below)


def finished_record(folder: Folder, name: str, *, key: str, below: str = "") -> Record | None:
    """Return the record of a slice if it has this key and its files exist with their sizes.

    Only files whose names begin with `below` are checked.
    """
    record = _record_of(folder, name, key=key)
    if record is None:
        return None
    files = [file for file in record.values["files"] if file["name"].startswith(below)]
    present = all(folder.size(file["name"]) == file["size"] for file in files)
    return record if present else None


def is_skipped(record: Record) -> bool:
    """Return whether a record is that of a skipped slice, which the next run tries again."""
    return SKIPPED in record.values["quarantined"]


def _record_of(folder: Folder, name: str, *, key: str) -> Record | None:
    try:
        record = read_record(folder, name)
    except CorruptOutputError:
        return None
    return record if record is not None and record.values.get("key") == key else None


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
