"""The counts cache of a work folder: counts of slices and groups of slices, and their records."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    MAX_RECORD_BYTES,
    CountRecord,
    MergeRecord,
    SumRecord,
    load,
)
from nanotok_ray.sources import COUNTED_SUFFIX
from nanotok_ray.storage import CHECKSUMS, Folder, checked_name

COUNTS_FOLDER = "counts"
_Record = CountRecord | MergeRecord | SumRecord
_KINDS: dict[str, type[_Record]] = {
    COUNTS_FOLDER: CountRecord,
    "merged": MergeRecord,
    "reduced": SumRecord,
}
_RECORD = ".json"
_SUFFIXES = (COUNTED_SUFFIX, ".arrow", _RECORD)
_THREADS = (
    16  # small files of a remote store are read concurrently, since each read waits for the network
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CountsCache:
    """Counts of a slice, or merged counts of several: a file, its record, the quarantine."""

    name: str
    """Path in the work folder without suffix."""
    files: Mapping[str, int]
    """Bytes on disk of each file, by its path in the work folder."""
    record: _Record | None
    """None: it does not exist, cannot be read, or does not match a file."""

    @property
    def num_bytes(self) -> int:
        """Bytes on disk of all files."""
        return sum(self.files.values())

    @property
    def is_merged(self) -> bool:
        """Whether these are merged counts of several slices."""
        return not self.name.startswith(f"{COUNTS_FOLDER}/")

    def number(self, field: str) -> int:
        """Return a number of the record, such as `texts`; 0 if the record has none."""
        return int(getattr(self.record, field)) if isinstance(self.record, CountRecord) else 0


def cached_counts(work: Folder) -> list[CountsCache]:
    """Return the counts of a work folder, sorted by name, with their records.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    sets: dict[str, dict[str, int]] = defaultdict(dict)
    for name, size in sorted(work.sizes().items()):
        if (stem := _stem(name)) is not None:
            sets[stem][name] = size
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return list(pool.map(lambda stem: _read(work, stem, sets[stem]), sorted(sets)))


def remove_counts(work: Folder, counts: CountsCache) -> None:
    """Remove the files of one set of counts, first the record, which marks it as complete."""
    for name in _in_order(counts.files):
        work.remove(name)


def _in_order(files: Mapping[str, int]) -> Iterator[str]:
    yield from (name for name in files if name.endswith(_RECORD))
    yield from (name for name in files if not name.endswith(_RECORD))


def _stem(name: str) -> str | None:
    """Return the path of a file of counts without its suffix, or None for another file.

    The checksum of a record belongs to the record.

    >>> _stem("counts/web/a-00000-0123456789abcdef.arrow"), _stem("counts/web/notes.txt")
    ('counts/web/a-00000-0123456789abcdef', None)
    """
    name = checked_name(name) if name.startswith(CHECKSUMS) else name
    folder, *rest = name.split("/")
    if folder not in _KINDS or len(rest) != 2:  # noqa: PLR2004 - source and file
        return None
    return next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), None)


def _read(folder: Folder, stem: str, files: Mapping[str, int]) -> CountsCache:
    name, kind = f"{stem}{_RECORD}", _KINDS[stem.partition("/")[0]]
    record = _record(folder, name, kind) if name in files else None
    if record is not None and any(files.get(file.name) != file.size for file in record.files):
        record = None
    return CountsCache(name=stem, files=files, record=record)


def _record(folder: Folder, name: str, kind: type[_Record]) -> _Record | None:
    try:
        return load(kind, folder.read_bytes(name, limit=MAX_RECORD_BYTES), name=folder.join(name))
    except (FileNotFoundError, CorruptOutputError):
        return None
