"""The documents of shards in the order of their sources."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.formats import (
    DocumentBatch,
    DocumentReader,
    ShardRecord,
    ShardTables,
    SourceRows,
    StoredShard,
    shards_of,
)
from nanotok_ray.shards.writer import mapped_rows
from nanotok_ray.sources import Piece
from nanotok_ray.storage import Folder

SourceRange = tuple[str, int | None, tuple[int, int] | None]
"""File; row group of a parquet file, or range in bytes of another file."""

Run = tuple[npt.NDArray[np.int64], DocumentBatch]
"""Rows of a source range, and the consecutive documents of a shard that they became."""


def source_range(piece: Piece, group: int | None) -> SourceRange:
    """Return the source range of a piece, or of a row group of it."""
    return piece.file.path, group, (piece.start, piece.stop) if group is None else None


@dataclass(slots=True)
class _Shard:
    """A shard that is being read."""

    reader: DocumentReader
    entries: list[tuple[SourceRange, npt.NDArray[np.int64]]]
    """The remaining entries of the source map in reverse order."""


class WrittenDocuments:
    """The documents of shards in order; must be closed."""

    def __init__(self, folder: Folder, record: ShardRecord, *, item_bytes: int) -> None:
        """Read the shards of a record, whose files were checked."""
        self._folder = folder
        shards = shards_of(record, item_bytes=item_bytes, sha256="")
        maps = (shard.source_map for shard in record.shards)
        self._left = list(zip(shards, maps, strict=True))[::-1]
        self._shard: _Shard | None = None
        self._stack = ExitStack()

    def close(self) -> None:
        """Close the files that are open."""
        self._stack.close()

    def take(self, source: SourceRange, *, last: int) -> Iterator[Run]:
        """Yield the next documents of a source range, up to the row `last`, with their rows."""
        while (shard := self._current()) is not None:
            entry, rows = shard.entries[-1]
            count = int(np.searchsorted(rows, last, side="right"))
            if entry != source or count == 0:
                return
            shard.entries[-1] = entry, rows[count:]
            yield rows[:count], shard.reader.take(count)

    @property
    def left(self) -> int:
        """Number of documents that were not returned."""
        shard = self._current()
        waiting = sum(stored.documents for stored, _ in self._left)
        return waiting if shard is None else waiting + shard.reader.left

    def _current(self) -> _Shard | None:
        while True:
            shard = self._shard
            while shard is not None and shard.entries and not len(shard.entries[-1][1]):
                shard.entries.pop()
            if shard is not None and shard.entries:
                return shard
            if not self._left:
                return None
            self._stack.close()
            self._shard = self._open(*self._left.pop())

    def _open(self, shard: StoredShard, source_map: Sequence[SourceRows]) -> _Shard:
        folder, name = self._folder, shard.name

        def read(suffix: str) -> npt.NDArray[np.uint8]:
            return np.frombuffer(folder.read_bytes(name + suffix), dtype=np.uint8)

        tables = ShardTables.of(shard, read, folder=folder.url)
        reader = DocumentReader(
            shard, tables, lambda suffix: self._stack.enter_context(folder.open(name + suffix))
        )
        entries = [(_entry_range(entry), mapped_rows(entry)) for entry in source_map]
        return _Shard(reader, entries[::-1])


def _entry_range(entry: SourceRows) -> SourceRange:
    return entry.file, entry.row_group, entry.range
