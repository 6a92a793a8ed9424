"""The documents of shards beside the documents of their sources."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents.batch import Documents, offsets_of
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats.document_ids import DocumentIds
from nanotok_ray.formats.document_images import DocumentImages, Images
from nanotok_ray.formats.document_index import unpack_index
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import ILLUSTRATED, MASKED
from nanotok_ray.shards.writer import mapped_rows
from nanotok_ray.sources import Batch, Piece, Slice
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder, open_input
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.model import NUM_BYTES
from nanotok_ray.tokenizer.rendering import Ids

SourceRange = tuple[str, int | None, tuple[int, int] | None]
"""File; row group of a parquet file, or the range in bytes of another."""


def source_range(piece: Piece, group: int | None) -> SourceRange:
    """Return the source range of a piece, or of a row group in it."""
    return piece.path, group, (piece.start, piece.stop) if group is None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Documents that follow each other in a shard and come from one source range."""

    name: str
    """Of the shard."""
    first: int
    """Number of the first in the shard."""
    rows: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    ids: Ids
    """Of all of them, back to back."""
    mask: npt.NDArray[np.uint8] | None
    images: Images | None
    """Documents are numbered from the first of the run."""
    document_ids: Documents | None
    """What the source's `id_column` says of each, if the shards have that."""

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
    """What is left of the source map, the next last."""
    next: int = 0
    """Number of the next document."""


class WrittenDocuments:
    """The documents of shards, in order; a context manager, which closes the files."""

    def __init__(
        self,
        folder: Folder,
        shards: Sequence[Mapping[str, Any]],
        *,
        item_bytes: int,
        kind: str,
        with_document_ids: bool,
    ) -> None:
        self._folder = folder
        self._kind, self._with_document_ids = kind, with_document_ids
        self._type = np.dtype(f"<u{item_bytes}")
        self._left = [*reversed(shards)]
        self._shard: _Shard | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
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
        """The number of documents that were not taken."""
        shard = self._current()
        waiting = sum(int(shard_values["documents"]) for shard_values in self._left)
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
            self._shard = self._open(self._left.pop())

    def _open(self, shard: Mapping[str, Any]) -> _Shard:
        name = shard["name"]
        positions, _ = unpack_index(self._bytes(f"{name}.idx"), name=name)
        entries = [(_entry_range(entry), mapped_rows(entry)) for entry in shard["source_map"]]
        return _Shard(
            name=name,
            positions=positions,
            ids=self._stream(f"{name}.bin"),
            mask=self._stream(f"{name}.mask") if self._kind in MASKED else None,
            images=self._images(f"{name}.images", len(positions) - 1),
            document_ids=self._ids(f"{name}.ids", len(positions) - 1),
            entries=entries[::-1],
        )

    def _images(self, name: str, documents: int) -> DocumentImages | None:
        if self._kind not in ILLUSTRATED:
            return None
        return DocumentImages(self._bytes(name), name=name, documents=documents)

    def _ids(self, name: str, documents: int) -> DocumentIds | None:
        if not self._with_document_ids:
            return None
        return DocumentIds(self._bytes(name), name=name, documents=documents)

    def _bytes(self, name: str) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._folder.read_bytes(name), dtype=np.uint8)

    def _stream(self, name: str) -> BinaryIO:
        return self._stack.enter_context(open_input(self._folder.join(name)))

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


def _entry_range(entry: Mapping[str, Any]) -> SourceRange:
    if "row_group" in entry:
        return entry["file"], entry["row_group"], None
    start, stop = entry["range"]
    return entry["file"], None, (start, stop)


MAX_PROBLEMS = 5
"""Documents named of a slice; a changed source makes all of them differ."""


@dataclass(slots=True)
class Compared:
    """The result of comparing documents: counts and problems."""

    documents: int = 0
    source_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    more: int = 0
    """Problems beyond the first few."""

    def add(self, problem: str) -> None:
        """Add a problem; beyond the limit, only count it."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more += 1

    def end(self, source: str) -> None:
        """Add a line with the number of problems beyond the limit."""
        if self.more:
            self.problems.append(f"{source}: and {self.more:,} more of this slice")


OnBatch = Callable[[int, Batch, Iterator[Run]], None]
"""Takes the number of a piece, a batch of it, and the runs of documents made of the batch."""


def read_again(
    folder: Folder,
    reading: SliceReading,
    values: Mapping[str, Any],
    *,
    item_bytes: int,
    found: Compared,
    on_batch: OnBatch,
) -> bool:
    """Read a slice again; return whether that succeeded. If not, `found` has the reason.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    slice_ = reading.slice
    with WrittenDocuments(
        folder,
        values["shards"],
        item_bytes=item_bytes,
        kind=slice_.kind,
        with_document_ids=reading.with_document_ids and slice_.id_column is not None,
    ) as written:
        try:
            for piece, batch in reading:
                source = source_range(slice_.pieces[piece], batch.group)
                on_batch(piece, batch, written.take(source, last=int(batch.numbers[-1])))
        except TransientIOError:
            raise
        except (SourceError, OSError) as error:
            found.problems.insert(0, f"a source cannot be read again: {_naming(error, slice_)}")
            return False
        if written.left:
            found.add(f"{slice_.source}: {written.left:,} documents are no longer in the source")
    found.source_bytes = reading.bytes_in
    return True


def _naming(error: Exception, slice_: Slice) -> str:
    message = str(error)
    named = any(piece.url in message or piece.path in message for piece in slice_.pieces)
    return (
        message
        if named
        else f"{message} (of {', '.join(piece.path for piece in slice_.pieces[:3])})"
    )


def positions_in(batch: Batch, run: Run) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each document's position in a batch, and the documents that are missing."""
    at = np.searchsorted(batch.numbers, run.rows).astype(np.int64)
    is_there = at < len(batch.numbers)
    is_there[is_there] = batch.numbers[at[is_there]] == run.rows[is_there]
    return at, np.flatnonzero(~is_there)


def account_problems(values: Mapping[str, Any], reading: SliceReading) -> Iterator[str]:
    """Compare what was read and counted again with the record."""
    for old, new in zip(values["read"], reading.read, strict=False):
        if (old["bytes"], old["sha256"]) != (new["bytes"], new["sha256"]):
            yield (
                f"{new['file']}, {new['start']} to {new['stop']}, has changed since it was read: "
                f"it had {old['bytes']} bytes, sha256 {old['sha256'][:16]}, and now has "
                f"{new['bytes']}, {new['sha256'][:16]}"
            )
    counted = {
        "documents in": (values["documents"]["in"], reading.documents_in),
        "bytes of documents in": (values["bytes"]["in"], reading.bytes_in),
        "blank lines": (values["blank_lines"], reading.blank_lines),
        "documents of the other split": (values["other_split"], reading.other_split),
    }
    for what, (then, now) in counted.items():
        if then != now:
            yield f"record {values['key'][:16]}: {then} {what}, the source has {now}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextComparison:
    """How a text becomes a document: special tokens before and after its ids."""

    tokenizer: Tokenizer
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, settings: ShardSettings) -> Self:
        """Return the special tokens that the settings prepend and append."""
        special = tokenizer.encode_special
        return cls(
            tokenizer=tokenizer,
            before=tuple(map(special, settings.prepend)),
            after=tuple(map(special, settings.append)),
        )

    def differing(
        self, ids: Ids, lengths: npt.NDArray[np.int64], documents: Documents
    ) -> npt.NDArray[np.int64]:
        """Return the numbers of documents whose ids are not the text between these tokens."""
        size = len(self.before) + len(self.after)
        if (lengths < size).any():
            return np.flatnonzero(lengths < size)
        ends = np.cumsum(lengths)
        wrong, is_text = self._surrounded(ids, ends - lengths, ends)
        inner = ids[is_text] if size else ids
        bounds = offsets_of(lengths - size)
        # Decoded, the name of a special token and the token itself look the same.
        lowest = NUM_BYTES + len(self.tokenizer.model.merges)
        special = np.flatnonzero(inner >= lowest)
        if len(special):
            wrong[np.searchsorted(bounds, special, side="right") - 1] = True
            inner = np.where(inner >= lowest, inner.dtype.type(0), inner)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(inner, bounds, as_bytes=True))
        return np.flatnonzero(wrong | unequal(decoded, documents))

    def _surrounded(
        self, ids: Ids, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which documents have other tokens around the text, and which ids are text."""
        wrong = np.zeros(len(starts), dtype=bool)
        is_text = np.ones(len(ids), dtype=bool)
        for first, numbers in ((starts, self.before), (ends - len(self.after), self.after)):
            for shift, number in enumerate(numbers):
                wrong |= ids[first + shift] != number
                is_text[first + shift] = False
        return wrong, is_text


def unequal(documents: Documents, other: Documents) -> npt.NDArray[np.bool_]:
    """Return whether each document differs from that of the other batch."""
    lengths, expected = np.diff(documents.offsets), np.diff(other.offsets)
    if not np.array_equal(lengths, expected):
        return np.array(
            [documents[number] != other[number] for number in range(len(lengths))], dtype=bool
        )
    mine = documents.data[documents.offsets[0] : documents.offsets[-1]]
    theirs = other.data[other.offsets[0] : other.offsets[-1]]
    unequal = np.zeros(len(lengths), dtype=bool)
    if not np.array_equal(mine, theirs):
        positions = np.flatnonzero(mine != theirs) + documents.offsets[0]
        unequal[np.searchsorted(documents.offsets, positions, side="right") - 1] = True
    return unequal
