"""The records of slices: their names, reading them, and which of them are finished."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.formats import (
    MAX_RECORD_BYTES,
    RECORDS,
    ResultRecord,
    ShardRecord,
    ShardSettings,
    StoredFile,
    dump,
    load,
    read_manifest,
    read_shards_index,
    sha256_of,
)
from nanotok_ray.shards.settings import shard_key
from nanotok_ray.sources import QUARANTINE, SKIPPED, Plan, Slice
from nanotok_ray.storage import Checksums, Folder, write_checked

READERS = 64
"""The number of records to read in parallel, because reading a remote file is mostly waiting."""

BLOCK_BYTES = 1 << 20
"""Bytes of a file read at a time: they stay in a core's cache between hashing and the other checks;
a multiple of the size of an id.
"""

AnyRecord = ShardRecord | ResultRecord
R = TypeVar("R", bound=AnyRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class Record(Generic[R]):
    """A record as read: its value, and the number and the sha256 (hex) of its bytes."""

    name: str
    value: R
    sha256: str
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedSlice:
    """A slice with the settings of its shards, and the key that its record must have."""

    slice: Slice
    settings: ShardSettings
    key: str = field(init=False)

    def __post_init__(self) -> None:
        """Compute the key."""
        object.__setattr__(self, "key", shard_key(self.slice, self.settings))

    @property
    def record_name(self) -> str:
        """Path of the record in the output folder."""
        slice_ = self.slice
        return f"{RECORDS}{slice_.source}/{slice_.split}/{slice_.name_for(self.key)}.json"


def expected_records(plan: Plan, settings: Mapping[str, ShardSettings]) -> Iterator[ExpectedSlice]:
    """Yield the slices of a plan in order, each with its key under the settings of its source."""
    for slice_ in plan.slices():
        yield ExpectedSlice(slice=slice_, settings=settings[slice_.source])


def read_record(folder: Folder, name: str, kind: type[R]) -> Record[R] | None:
    """Return a record, or None if it does not exist.

    Raises:
        CorruptOutputError: The file is not a record of this kind and version.
    """
    try:
        data = folder.read_bytes(name, limit=MAX_RECORD_BYTES)
    except FileNotFoundError:
        return None
    value = load(kind, data, name=folder.join(name))
    sha256 = sha256_of(data)
    return Record(name=name, value=value, sha256=sha256, num_bytes=len(data))


def write_record(folder: Folder, name: str, record: AnyRecord) -> None:
    """Publish a record after its checksum."""
    write_checked(folder, name, dump(record))


class Keyed(Protocol):
    """An item whose result is files and a record."""

    @property
    def record_name(self) -> str:
        """Path of the record."""

    @property
    def key(self) -> str:
        """The sha256 of everything on which the result depends."""


_Item = TypeVar("_Item", bound=Keyed)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRecords(Generic[_Item, R]):
    """Keyed items, and the records of those whose results are finished."""

    items: Sequence[_Item]
    records: Mapping[str, Record[R]]
    """The records by name; none for a result that is unfinished or whose record is damaged."""
    damaged: tuple[str, ...] = ()
    """The names of the records that are not as they were written, or contradict themselves. They
    must be removed before their results are made again."""

    @property
    def missing(self) -> list[_Item]:
        """The items without a record."""
        return [item for item in self.items if item.record_name not in self.records]

    @property
    def done(self) -> list[tuple[_Item, Record[R]]]:
        """The other items with their records."""
        pairs = ((item, self.records.get(item.record_name)) for item in self.items)
        return [(item, record) for item, record in pairs if record is not None]

    def notes(self, folder: Folder) -> Iterator[str]:
        """Yield a note on each damaged record."""
        for name in self.damaged:
            yield f"{folder.join(name)} is damaged; its result is made again"

    def remove_damaged(self, folder: Folder) -> None:
        """Remove the damaged records."""
        for name in self.damaged:
            folder.remove(name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Results(Generic[_Item, R]):
    """Keyed items, each with a record of its files; done if the record exists and fits."""

    items: Sequence[_Item]
    folder: Folder
    """The folder of the records and their files."""
    kind: type[R]
    """The type of the records."""
    below: Sequence[str]
    """Prefixes, one of which the names of all records and files have."""
    problems: Callable[[_Item, R], Iterable[str]] = lambda _, __: ()
    """Yields the contradictions of a record with its item."""
    published: Mapping[str, str] = field(default_factory=dict)
    """The sha256 (hex) of records by name, for records without a checksum."""

    def find(self) -> StoredRecords[_Item, R]:
        """Find the records whose files exist with their sizes, by a few listings."""
        sizes = {name: size for top in self.below for name, size in self.folder.sizes(top).items()}
        names = [item.record_name for item in self.items]
        tops = [top for top in self.below if any(name.startswith(top) for name in names)]
        checksums = Checksums.of(self.folder, tops)
        damaged: list[str] = []

        def read(item: _Item) -> Record[R] | None:
            name = item.record_name
            try:
                record = read_record(self.folder, name, self.kind) if name in sizes else None
            except CorruptOutputError:
                damaged.append(name)
                return None
            if record is None:
                return None
            is_same = self.published.get(name, record.sha256) == record.sha256
            is_same &= checksums.are_of(name, record.sha256)
            if is_same and record.value.key != item.key:
                return None
            if not is_same or any(True for _ in self.problems(item, record.value)):
                damaged.append(name)
                return None
            is_there = all(sizes.get(file.name) == file.size for file in record.value.files)
            return record if is_there else None

        with ThreadPoolExecutor(max_workers=READERS) as pool:
            stored = list(filter(None, pool.map(read, self.items)))
        records = {record.name: record for record in stored}
        return StoredRecords(items=self.items, records=records, damaged=tuple(sorted(damaged)))


def slice_results(
    out: Folder,
    expected: Sequence[ExpectedSlice],
    *,
    problems: Callable[[ExpectedSlice, ShardRecord], Iterable[str]] = lambda _, __: (),
) -> Results[ExpectedSlice, ShardRecord]:
    """Return the results of slices in an output."""
    sources = sorted({item.slice.source for item in expected})
    return Results(
        items=expected,
        folder=out,
        kind=ShardRecord,
        below=[f"{top}{source}/" for source in sources for top in ("", RECORDS, QUARANTINE)],
        problems=problems,
        published=published_records(out),
    )


def published_records(out: Folder) -> dict[str, str]:
    """Return the sha256 (hex) of the records that shards.idx names, by name.

    The result is empty if there is no manifest, or if it does not fit shards.idx.
    """
    try:
        manifest = read_manifest(out)
        index = read_shards_index(out, manifest)
        shards = [index.shard(row, manifest) for row in range(len(index.rows))]
    except (IncompleteOutputError, CorruptOutputError):
        return {}
    return {shard.record_name: shard.record_sha256 for shard in shards}


def finished_record(folder: Folder, name: str, kind: type[R], *, key: str) -> Record[R] | None:
    """Return a record if it has this key and its files exist with their sizes.

    Checksums are not compared.
    """
    try:
        record = read_record(folder, name, kind)
    except CorruptOutputError:
        return None
    if record is None or record.value.key != key:
        return None
    present = all(folder.size(file.name) == file.size for file in record.value.files)
    return record if present else None


def file_problem(
    folder: Folder, file: StoredFile, *, use: Callable[[memoryview], object] = lambda _: None
) -> str | None:
    """Return how a file differs from its entry in a record, or None.

    The file is read once. Its bytes are also passed to `use`, in blocks that are reused; reading
    stops soon after the size in the record.
    """
    path = folder.join(file.name)
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BLOCK_BYTES))
    try:
        with folder.open(file.name) as opened:
            while size <= file.size and (length := opened.readinto(buffer)):  # type: ignore[attr-defined]
                block = buffer[:length]
                digest.update(block)
                use(block)
                size += length
    except (FileNotFoundError, IsADirectoryError):
        return f"{path} is missing"
    except CorruptOutputError as error:
        return str(error)
    if size != file.size:
        return f"{path} has {folder.size(file.name)} bytes, its record says {file.size}"
    if digest.hexdigest() != file.sha256:
        return f"{path} has another sha256 than its record says: its bytes were changed"
    return None


def is_unchanged(folder: Folder, file: StoredFile) -> bool:
    """Return whether a file has the size and the sha256 of its entry in a record."""
    return file_problem(folder, file) is None


def is_skipped(record: Record[ShardRecord]) -> bool:
    """Return whether a record is that of a skipped slice, which the next run tries again."""
    return SKIPPED in record.value.quarantined
