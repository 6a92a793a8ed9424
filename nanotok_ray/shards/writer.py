"""Writes the documents of a slice to shards, with the rows of the inputs that they came from."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents
from nanotok_ray.formats import Images, Shard, SourceRows, StoredFile, images_of
from nanotok_ray.shards.sink import Ids, Sink
from nanotok_ray.sources import Piece


@dataclass(slots=True)
class _Run:
    """Documents from one row group (or byte range); consecutive rows are stored as ranges."""

    piece: Piece
    group: int | None
    parts: list[range | npt.NDArray[np.int64]] = field(default_factory=list)

    def add(self, rows: npt.NDArray[np.int64]) -> None:
        """Add rows that are all larger than the previous ones."""
        first, stop = int(rows[0]), int(rows[-1]) + 1
        if stop - first != len(rows):
            self.parts.append(rows)
            return
        last = self.parts[-1] if self.parts else None
        if isinstance(last, range) and last.stop == first:
            first = self.parts.pop()[0]
        self.parts.append(range(first, stop))

    def entry(self) -> SourceRows:
        """Return the run as it is stored."""
        rows = sum(map(len, self.parts))
        first, last = int(self.parts[0][0]), int(self.parts[-1][-1])
        num_absent = last - first + 1 - rows
        present = absent = None
        if num_absent > rows:
            present = tuple(int(row) for part in self.parts for row in part)
        elif num_absent:
            absent = tuple(self._absent(first))
        return SourceRows(
            file=self.piece.path,
            row_group=self.group,
            range=(self.piece.start, self.piece.stop) if self.group is None else None,
            first_row=first,
            rows=rows,
            present=present,
            absent=absent,
        )

    def _absent(self, expected: int) -> Iterator[int]:
        """Yield the rows from `expected` on that are absent."""
        for part in self.parts:
            start, stop = int(part[0]), int(part[-1]) + 1
            yield from range(expected, start)
            if not isinstance(part, range):
                yield from np.setdiff1d(np.arange(start, stop), part, assume_unique=True).tolist()
            expected = stop


@dataclass(slots=True)
class SourceMap:
    """The rows of the source that documents came from, in order."""

    pieces: tuple[Piece, ...]
    _runs: list[_Run] = field(default_factory=list)

    def add(self, piece: int, group: int | None, rows: npt.NDArray[np.int64]) -> None:
        """Add documents: the number of their piece, their row group, and their rows in order."""
        source = self.pieces[piece]
        last = self._runs[-1] if self._runs else None
        if last is None or last.piece is not source or last.group != group:
            self._runs.append(_Run(piece=source, group=group))
        self._runs[-1].add(rows)

    def entries(self) -> tuple[SourceRows, ...]:
        """Return the map as it is stored in a record."""
        return tuple(run.entry() for run in self._runs)


def mapped_rows(entry: SourceRows) -> npt.NDArray[np.int64]:
    """Return the row of each document of an entry, in order.

    >>> mapped_rows(SourceRows(file="a", first_row=4, rows=3, absent=(5,))).tolist()
    [4, 6, 7]
    """
    if entry.present is not None:
        return np.asarray(entry.present, dtype=np.int64)
    absent = entry.absent or ()
    first = entry.first_row
    rows = np.arange(first, first + entry.rows + len(absent), dtype=np.int64)
    return np.setdiff1d(rows, absent, assume_unique=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedDocuments:
    """Rendered documents, all from one row group (or byte range) of one piece."""

    ids: Ids
    lengths: npt.NDArray[np.int64]
    mask: npt.NDArray[np.uint8] | None
    """A byte for each id; None for text."""
    images: Images | None
    """Document among these, start and end of each image, in order; None except for vision."""
    sizes: npt.NDArray[np.int64]
    """Bytes of each document as it was read."""
    piece: int
    group: int | None
    selected: npt.NDArray[np.int64]
    """The numbers of the documents in the batch."""
    rows: npt.NDArray[np.int64]
    document_ids: Documents | None
    """The values of the `id_column` as UTF-8, empty for missing values."""


class ShardWriter:
    """Writes the shards of one slice; `finish` publishes the last one, `discard` drops it."""

    def __init__(
        self,
        open_sinks: Callable[[str], Sequence[Sink]],
        *,
        name_of: Callable[[int], str],
        pieces: tuple[Piece, ...],
        max_shard_tokens: int,
    ) -> None:
        """Set the functions that open the sinks of a shard and name a number, and the limit."""
        self._open_sinks, self._name_of = open_sinks, name_of
        self._pieces = pieces
        self._limit = max_shard_tokens
        self._sinks: Sequence[Sink] = ()
        self._map = SourceMap(pieces)
        self._documents = self._tokens = self._bytes = 0
        self.shards: list[Shard] = []
        """The published shards."""
        self.files: list[StoredFile] = []
        """Their files."""

    def write(self, documents: RenderedDocuments) -> None:
        """Append documents, starting a new shard where the limit requires it."""
        ends = np.cumsum(documents.lengths)
        first = 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            room = self._limit - self._tokens
            last = int(np.searchsorted(ends, start + room, side="right"))
            if last <= first and self._documents:
                self.finish()
                continue
            last = max(last, first + 1)
            self._append(documents, slice(first, last), slice(start, int(ends[last - 1])))
            first = last

    def _append(self, documents: RenderedDocuments, chosen: slice, tokens: slice) -> None:
        if not self._sinks:
            self._sinks = self._open_sinks(self._name_of(len(self.shards)))
        mask = None if documents.mask is None else documents.mask[tokens]
        images = None if documents.images is None else images_of(documents.images, chosen)
        document_ids = documents.document_ids
        if document_ids is not None:
            document_ids = document_ids.part(chosen.start, chosen.stop)
        for sink in self._sinks:
            sink.write(documents.ids[tokens], documents.lengths[chosen], mask, images, document_ids)
        self._map.add(documents.piece, documents.group, documents.rows[chosen])
        self._documents += chosen.stop - chosen.start
        self._tokens += tokens.stop - tokens.start
        self._bytes += int(documents.sizes[chosen].sum())

    def finish(self) -> None:
        """Publish the shard that is open, if any."""
        if not self._sinks:
            return
        self.files += [file for sink in self._sinks for file in sink.close()]
        self.shards.append(
            Shard(
                name=self._name_of(len(self.shards)),
                documents=self._documents,
                bytes=self._bytes,
                tokens=self._tokens,
                source_map=self._map.entries(),
            )
        )
        self._sinks, self._documents, self._tokens, self._bytes = (), 0, 0, 0
        self._map = SourceMap(self._pieces)

    def discard(self) -> None:
        """Discard the shard that is open, if any."""
        for sink in self._sinks:
            sink.discard()
        self._sinks = ()
