"""The documents of shards in the order of their sources."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents
from nanotok_ray.formats import (
    DocumentIds,
    DocumentImages,
    Images,
    ShardRecord,
    ShardTables,
    SourceRows,
    StoredShard,
    shards_of,
)
from nanotok_ray.shards.sink import Ids
from nanotok_ray.shards.writer import mapped_rows
from nanotok_ray.sources import Piece
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from typing_extensions import Self

SourceRange = tuple[str, int | None, tuple[int, int] | None]
"""File; row group of a parquet file, or range in bytes of another file."""


def source_range(piece: Piece, group: int | None) -> SourceRange:
    """Return the source range of a piece, or of a row group of it."""
    return piece.path, group, (piece.start, piece.stop) if group is None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Consecutive documents of a shard from one source range."""

    name: str
    """Name of the shard."""
    first: int
    """Index of the first document in the shard."""
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    ids: Ids
    """The ids of all documents, back to back."""
    mask: npt.NDArray[np.uint8] | None
    images: Images | None
    """Documents are numbered from the start of the run."""
    document_ids: Documents | None
    """The value of the source's `id_column` of each document, if the shards have ids."""

    def describe(self, document: int) -> str:
        """Return the name of a document of the run, for messages."""
        return f"{self.name}: document {self.first + document}"


@dataclass(slots=True)
class _Shard:
    """A shard that is being read."""

    name: str
    positions: npt.NDArray[np.int64]
    ids: BinaryIO
    mask: BinaryIO | None
    images: DocumentImages | None
    document_ids: DocumentIds | None
    entries: list[tuple[SourceRange, npt.NDArray[np.int64]]]
    """The remaining entries of the source map in reverse order."""
    next: int = 0
    """Index of the next document."""


class WrittenDocuments:
    """The documents of shards in order; a context manager that closes the files."""

    def __init__(
        self,
        folder: Folder,
        record: ShardRecord,
        *,
        item_bytes: int,
    ) -> None:
        """Read the shards of a record, whose files were checked."""
        self._folder = folder
        self._type = np.dtype(f"<u{item_bytes}")
        shards = shards_of(record, item_bytes=item_bytes, sha256="")
        maps = (shard.source_map for shard in record.shards)
        self._left = list(zip(shards, maps, strict=True))[::-1]
        self._shard: _Shard | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def take(self, source: SourceRange, *, last: int) -> Iterator[Run]:
        """Yield the next documents of a source range, up to the row `last`."""
        while (shard := self._current()) is not None:
            entry, rows = shard.entries[-1]
            count = int(np.searchsorted(rows, last, side="right"))
            if entry != source or count == 0:
                return
            shard.entries[-1] = entry, rows[count:]
            yield self._read(shard, rows[:count])

    @property
    def left(self) -> int:
        """Number of documents that were not returned."""
        shard = self._current()
        waiting = sum(stored.documents for stored, _ in self._left)
        return waiting if shard is None else waiting + len(shard.positions) - 1 - shard.next

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
        name = shard.name
        tables = ShardTables.of(
            shard, lambda suffix: self._bytes(f"{name}{suffix}"), folder=self._folder.url
        )
        entries = [(_entry_range(entry), mapped_rows(entry)) for entry in source_map]
        return _Shard(
            name=name,
            positions=tables.index.positions,
            ids=self._stream(f"{name}.bin"),
            mask=self._stream(f"{name}.mask") if ".mask" in shard.sizes else None,
            images=tables.images,
            document_ids=tables.document_ids,
            entries=entries[::-1],
        )

    def _bytes(self, name: str) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._folder.read_bytes(name), dtype=np.uint8)

    def _stream(self, name: str) -> BinaryIO:
        return self._stack.enter_context(self._folder.open(name))

    def _read(self, shard: _Shard, rows: npt.NDArray[np.int64]) -> Run:
        bounds = shard.positions[shard.next : shard.next + len(rows) + 1]
        tokens = int(bounds[-1] - bounds[0])
        data = shard.ids.read(tokens * self._type.itemsize)
        stop = shard.next + len(rows)
        document_ids = None
        if shard.document_ids is not None:
            text, offsets = shard.document_ids.part(shard.next, stop)
            document_ids = Documents(data=text, offsets=offsets)
        run = Run(
            name=shard.name,
            first=shard.next,
            rows=rows,
            lengths=np.diff(bounds),
            ids=np.frombuffer(data, dtype=self._type),
            mask=None
            if shard.mask is None
            else np.frombuffer(shard.mask.read(tokens), dtype=np.uint8),
            images=None if shard.images is None else shard.images.part(shard.next, stop),
            document_ids=document_ids,
        )
        shard.next = stop
        return run


def _entry_range(entry: SourceRows) -> SourceRange:
    return entry.file, entry.row_group, entry.range
