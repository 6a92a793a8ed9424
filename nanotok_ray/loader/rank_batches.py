"""The documents that a rank reads, and their row groups, in nanochat's order."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_PLAN_BYTES,
    PLAN_NAME,
    SPLITS,
    Manifest,
    PlannedSource,
    ShardRecord,
    SourceRows,
    StoredPlan,
    StoredShard,
    format_value,
    load,
    number,
    read_shard_record,
    sha256_of,
)
from nanotok_ray.loader.batch import SavedState
from nanotok_ray.loader.shards import Shards, stored_shard
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS

if TYPE_CHECKING:
    from typing_extensions import Self

Numbers = npt.NDArray[np.int64]

_BOS = SPECIAL_TOKENS[0]
_BOTH_SPLITS = "share"
_INSTEAD = "use `nanotok_ray.loader.Loader`, which takes any source"
_MAX_CACHED_MAPS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFile:
    """A parquet file of the corpus."""

    source: str
    path: str
    """Path relative to the root of its source."""
    row_groups: int


class RowGroups:
    """The row groups of a split: `files` in order, and the documents of each row group."""

    def __init__(self, shards: Shards) -> None:
        """Read the plan and choose the files that have the split of the shards.

        Raises:
            PackingError: nanochat's loader cannot read such a source, or there is no document.
            CorruptOutputError: plan.json is not the one that the manifest names.
        """
        self._shards = shards
        documents = shards.index.rows["documents"][shards.rows].astype(np.int64)
        self._filled_shards = np.flatnonzero(documents).tolist()
        self.files = _files(shards, _plan(shards))
        self._numbers = {(file.source, file.path): at for at, file in enumerate(self.files)}
        self._reached = 0
        self._map = lru_cache(_MAX_CACHED_MAPS)(self._read_map)

    def bounds(self, file: int) -> Numbers:
        """Return the global index of the first document of each row group of a file.

        Returns:
            int64, one more than the file has row groups: row group g has the documents from
                `bounds[g]` up to `bounds[g + 1]`. A row group whose rows are all quarantined has
                no documents.

        Raises:
            CorruptOutputError: A record contradicts the plan or shards.idx.
        """
        counts = np.zeros(self.files[file].row_groups + 1, dtype=np.int64)
        runs = list(self._runs(file, self._first_filled(file)))
        counts[0] = runs[0][0] if runs else 0
        for _, group, rows in runs:
            counts[group + 1] += rows
        return np.cumsum(counts)

    def _runs(self, file: int, at: int) -> Iterator[tuple[int, int, int]]:
        """Yield the first document, row group and number of documents of each run of a file."""
        while at < len(self._filled_shards):
            self._reached = at
            document = int(self._shards.starts[self._filled_shards[at]])
            for run_file, group, rows in self._map(at):
                if run_file > file:
                    return
                if run_file == file:
                    yield document, group, rows
                document += rows
            at += 1

    def _first_filled(self, file: int) -> int:
        """Return the position of the first shard with documents of a file or of a later file."""
        for at in (self._reached, self._reached + 1):
            if self._begins(at, file):
                return at
        return bisect_left(range(len(self._filled_shards)), file, key=self._last_file)

    def _begins(self, at: int, file: int) -> bool:
        if at >= len(self._filled_shards) or self._last_file(at) < file:
            return False
        return at == 0 or self._last_file(at - 1) < file

    def _last_file(self, at: int) -> int:
        return self._map(at)[-1][0]

    def _read_map(self, at: int) -> list[tuple[int, int, int]]:
        """Return the file, row group and number of documents of each run of a shard, in order."""
        shard = stored_shard(self._shards, self._filled_shards[at])
        name = shard.name
        runs = [
            (*self._row_group(shard, entry), entry.rows)
            for entry in _source_map(read_shard_record(self._shards.files, shard), name)
        ]
        if sum(rows for _, _, rows in runs) != shard.documents:
            raise CorruptOutputError(
                f"the record of {name} maps other than {shard.documents} documents"
            )
        if runs != sorted(runs, key=lambda run: run[:2]):
            raise CorruptOutputError(f"the record of {name} has row groups out of order")
        return runs

    def _row_group(self, shard: StoredShard, entry: SourceRows) -> tuple[int, int]:
        """Return the file and the row group of an entry."""
        file, group = self._numbers.get((shard.source, entry.file)), entry.row_group
        if file is None or group is None or group >= self.files[file].row_groups:
            raise CorruptOutputError(
                f"the record of {shard.name} maps row group {group} of {entry.file!r}, which "
                f"{PLAN_NAME} does not have in this split"
            )
        return file, group


def _source_map(record: ShardRecord, name: str) -> tuple[SourceRows, ...]:
    for shard in record.shards:
        if shard.name == name:
            return shard.source_map
    raise CorruptOutputError(f"the record of {name} does not name it")


def _plan(shards: Shards) -> StoredPlan:
    try:
        data = shards.read_file(PLAN_NAME, limit=MAX_PLAN_BYTES)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CorruptOutputError(
            f"{PLAN_NAME} is missing, though {MANIFEST_NAME} names it"
        ) from error
    if sha256_of(data) != shards.manifest.plan_sha256:
        raise CorruptOutputError(f"{PLAN_NAME} is not the one that {MANIFEST_NAME} names")
    return load(StoredPlan, data, name=PLAN_NAME)


def _files(shards: Shards, plan: StoredPlan) -> list[TextFile]:
    chosen = list(shards.ranges())
    if not chosen:
        raise PackingError("the shards of this split have no document; open others")
    split = SPLITS[int(shards.index.rows["split"][shards.rows[0]])]
    sources = {source.name: source for source in plan.sources}
    files = []
    for name in chosen:
        _check_source(name, shards.manifest, sources.get(name))
        files += [
            TextFile(source=name, path=file.path, row_groups=len(file.layout))
            for file in sources[name].files
            if file.split in (split, _BOTH_SPLITS)
        ]
    return files


def _check_source(name: str, manifest: Manifest, planned: PlannedSource | None) -> None:
    """Raise an error if nanochat's loader could not produce the same ids from a source."""
    if planned is None:
        raise CorruptOutputError(f"{MANIFEST_NAME} has a source {name!r}, {PLAN_NAME} has none")
    kind, settings = manifest.kinds[name], manifest.settings[name]
    formats = {file.format for file in planned.files}
    around = [list(settings.prepend), list(settings.append)]
    if kind != "text":
        problem = f"is of kind {kind}, nanochat's loader reads text"
    elif formats - {"parquet"}:
        problem = (
            f"has files of {', '.join(sorted(formats))}, and ranks take turns with the row groups "
            "of parquet"
        )
    elif around != [[_BOS], []]:
        problem = (
            f"has {around[0]} before and {around[1]} after each document, nanochat's has "
            f"{[_BOS]} and nothing"
        )
    else:
        return
    raise PackingError(f"source {name!r} {problem}; select another source, or {_INSTEAD}")


_FIELDS = ("pq_idx", "rg_idx", "epoch")


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """A row group from which documents were read, with the names of nanochat's state."""

    pq_idx: int = 0
    """The number of the file in the split."""
    rg_idx: int = 0
    """The number of the row group in that file."""
    epoch: int = 1
    """The number of the pass over all files, from 1 on."""

    def to_dict(self) -> dict[str, int]:
        """Return the position in the form of nanochat's state."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: SavedState) -> "Self":
        """Parse nanochat's state. A state of an older version of nanochat has no epoch.

        >>> Position.from_dict({"pq_idx": 3, "rg_idx": 1})
        Position(pq_idx=3, rg_idx=1, epoch=1)

        Raises:
            PackingError: `values` is not such a state.
        """
        if not isinstance(values, Mapping):
            raise PackingError(
                f"{format_value(values)} is not a state of a loader, which is a dictionary"
            )
        fields = {name: values.get(name, 1 if name == "epoch" else None) for name in _FIELDS}
        if not all(map(number, fields.values())):
            listed = ", ".join(f"{name} {format_value(value)}" for name, value in fields.items())
            raise PackingError(
                f"{listed}: no state of a loader; pq_idx and rg_idx are needed, and whole numbers"
            )
        return cls(**{name: int(value) for name, value in fields.items() if value is not None})


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentBatch:
    """Consecutive documents of one row group."""

    first: int
    """Global index of the first document."""
    documents: int
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class RankBatches:
    """The document batches that one of several ranks reads."""

    groups: RowGroups
    rank: int
    world_size: int
    size: int
    """Maximum number of documents of a batch."""

    def after(self, start: Position | None) -> Iterator[DocumentBatch]:
        """Yield all batches after the row group `start`, or all batches if `start` is None.

        Raises:
            PackingError: A pass over all files has no document for this rank.
        """
        for first, stop, position in self._groups(start):
            for at in range(first, stop, self.size):
                documents = min(self.size, stop - at)
                yield DocumentBatch(first=at, documents=documents, position=position)

    def _groups(self, start: Position | None) -> Iterator[tuple[int, int, Position]]:
        """Yield the first document, the end and the position of each non-empty row group."""
        epoch = 1 if start is None else start.epoch
        if start is not None:
            yield from self._after_in_pass(start)
            epoch += 1
        while True:
            is_empty = True
            for file in range(len(self.groups.files)):
                for group in self._of_file(file, self.rank, epoch):
                    is_empty = False
                    yield group
            if is_empty:
                raise PackingError(self._nothing())
            epoch += 1

    def _after_in_pass(self, start: Position) -> Iterator[tuple[int, int, Position]]:
        """Yield the row groups that remain in the pass of the loader that saved `start`."""
        # Whichever rank saved `start`, all ranks continue after the W row groups of that step.
        following = (start.rg_idx // self.world_size + 1) * self.world_size + self.rank
        yield from self._of_file(start.pq_idx, following, start.epoch)
        for file in range(start.pq_idx + 1, len(self.groups.files)):
            yield from self._of_file(file, self.rank, start.epoch)

    def _of_file(self, file: int, begin: int, epoch: int) -> Iterator[tuple[int, int, Position]]:
        row_groups = self.groups.files[file].row_groups
        if begin >= row_groups:
            return
        bounds = self.groups.bounds(file).tolist()
        for group in range(begin, row_groups, self.world_size):
            if bounds[group] < bounds[group + 1]:
                position = Position(pq_idx=file, rg_idx=group, epoch=epoch)
                yield bounds[group], bounds[group + 1], position

    def _nothing(self) -> str:
        max_row_groups = max((file.row_groups for file in self.groups.files), default=0)
        return (
            f"rank {self.rank} of {self.world_size} has no document in a whole pass: it takes row "
            f"groups {self.rank}, {self.rank + self.world_size}, ... of each file, and none of the "
            f"{len(self.groups.files)} files has more than {max_row_groups} row groups, or "
            "those are empty; use fewer ranks, or `nanotok_ray.loader.Loader`, which shares rows"
        )
