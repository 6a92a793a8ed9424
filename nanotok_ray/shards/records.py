"""The records of slices: their names, reading them, and which of them are finished."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    MAX_RECORD_BYTES,
    RECORD_FORMAT,
    RECORDS,
    check_record_shape,
    from_json,
)
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.sources import QUARANTINE, SKIPPED, Plan, Slice
from nanotok_ray.storage import Folder

READERS = 64
"""The number of records to read in parallel, because reading a remote file is mostly waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A record as read: its values, and the sha256 (hex) of its bytes."""

    name: str
    values: dict[str, Any]
    sha256: str


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
