"""Writes the documents of a slice to shards, with the rows of the inputs that they came from."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray.formats import (
    DocumentBatch,
    Shard,
    SourceRows,
    StoredFile,
    Texts,
    ids_parts,
    images_parts,
    index_parts,
)
from nanotok_ray.sources import Piece
from nanotok_ray.storage import Folder, WrittenFile


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
            file=self.piece.file.path,
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

    documents: DocumentBatch
    sizes: npt.NDArray[np.int64]
    """Bytes of each document as it was read."""
    piece: int
    group: int | None
    selected: npt.NDArray[np.int64]
    """The numbers of the documents in the batch."""
    rows: npt.NDArray[np.int64]


class ShardFiles:
    """The files of a shard that is being written: NAME.bin, NAME.idx and the optional ones."""

    def __init__(
        self, folder: Folder, name: str, *, item_bytes: int, suffixes: Collection[str]
    ) -> None:
        """Open the files of ids and masks; the others are written when the shard is closed."""
        self._folder, self.name, self._item_bytes = folder, name, item_bytes
        self._stack = ExitStack()
        self._files = {
            suffix: self._open(suffix) for suffix in (".bin", ".mask") if suffix in suffixes
        }
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._images: list[tuple[int, npt.NDArray[np.int32]]] | None = (
            [] if ".images" in suffixes else None
        )
        self._document_ids: list[Texts] | None = [] if ".ids" in suffixes else None

    def _open(self, suffix: str) -> WrittenFile:
        return self._stack.enter_context(self._folder.create_once(self.name + suffix))

    def write(self, documents: DocumentBatch) -> None:
        """Append documents, which have a mask, images and ids if the shard has these files."""
        self._files[".bin"].write(documents.ids.astype(f"<u{self._item_bytes}", copy=False).data)
        if documents.mask is not None:
            self._files[".mask"].write(documents.mask.data)
        if self._images is not None and documents.images is not None:
            self._images.append((len(documents), documents.images.astype(np.int32)))
        if self._document_ids is not None and documents.document_ids is not None:
            self._document_ids.append(documents.document_ids)
        self._lengths.append(documents.lengths.astype(np.int32))

    def close(self) -> list[StoredFile]:
        """Publish the files, and return them."""
        self._write_side_file(".idx", index_parts(self._lengths, item_bytes=self._item_bytes))
        if self._images is not None:
            self._write_side_file(".images", images_parts(self._images))
        if self._document_ids is not None:
            self._write_side_file(".ids", ids_parts(self._document_ids))
        self._stack.close()
        return [
            StoredFile(name=self.name + suffix, size=file.size, sha256=file.sha256)
            for suffix, file in sorted(self._files.items())
        ]

    def _write_side_file(self, suffix: str, parts: Iterable[bytes]) -> None:
        self._files[suffix] = self._open(suffix)
        for part in parts:
            self._files[suffix].write(part)

    def discard(self) -> None:
        """Remove the temporary files."""
        self._stack.__exit__(InterruptedError, InterruptedError("discarded"), None)


class ShardWriter:
    """Writes the shards of one slice; `finish` publishes the last one, `discard` drops it."""

    def __init__(
        self,
        open_files: Callable[[int], ShardFiles],
        *,
        pieces: tuple[Piece, ...],
        max_shard_tokens: int,
    ) -> None:
        """Set the function that opens the files of a shard, given its number, and the limit."""
        self._open_files, self._pieces = open_files, pieces
        self._limit = max_shard_tokens
        self._files: ShardFiles | None = None
        self._map = SourceMap(pieces)
        self._documents = self._tokens = self._bytes = 0
        self.shards: list[Shard] = []
        """The published shards."""
        self.files: list[StoredFile] = []
        """Their files."""

    def write(self, rendered: RenderedDocuments) -> None:
        """Append documents, starting a new shard where the limit requires it."""
        positions = rendered.documents.positions
        first, count = 0, len(rendered.documents)
        while first < count:
            end = positions[first] + self._limit - self._tokens
            stop = int(np.searchsorted(positions, end, side="right")) - 1
            if stop <= first and self._documents:
                self.finish()
                continue
            stop = max(stop, first + 1)
            self._append(rendered, first, stop)
            first = stop

    def _append(self, rendered: RenderedDocuments, first: int, stop: int) -> None:
        if self._files is None:
            self._files = self._open_files(len(self.shards))
        documents = rendered.documents.part(first, stop)
        self._files.write(documents)
        self._map.add(rendered.piece, rendered.group, rendered.rows[first:stop])
        self._documents += len(documents)
        self._tokens += len(documents.ids)
        self._bytes += int(rendered.sizes[first:stop].sum())

    def finish(self) -> None:
        """Publish the shard that is open, if any."""
        if self._files is None:
            return
        self.files += self._files.close()
        self.shards.append(
            Shard(
                name=self._files.name,
                documents=self._documents,
                bytes=self._bytes,
                tokens=self._tokens,
                source_map=self._map.entries(),
            )
        )
        self._files, self._documents, self._tokens, self._bytes = None, 0, 0, 0
        self._map = SourceMap(self._pieces)

    def discard(self) -> None:
        """Discard the shard that is open, if any."""
        if self._files is not None:
            self._files.discard()
        self._files = None
