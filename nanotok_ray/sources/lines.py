"""Documents of line files, JSON lines and plain lines, in blocks of whole lines."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.json_lines import (
    BOM,
    ReadLines,
    Rejected,
    read_json,
    read_text,
    too_large,
)
from nanotok_ray.sources.stored import (
    DecodedStream,
    ReadAccount,
    StoredFile,
    changed,
    check_unchanged,
    open_planned,
)
from nanotok_ray.storage import version_of

BLOCK_BYTES = 1 << 18
_LINE_BREAK = b"\r\n"
_AROUND_BYTES = 5
"""Bytes of a line besides its document: a byte order mark and a line break."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line above the limit, whose content is not kept."""

    num_bytes: int
    """Size without the line break."""


class LineBlocks:
    r"""An iterator over (position of the first line, whole lines) of a stream.

    A line that crosses blocks is returned alone, as a bytearray; a line of more than
    `max_line_bytes` as a `LongLine`. Only the last line can lack a line break; if the stream is
    broken, that line is skipped.

    >>> parts = iter([b"a\nb", b"b\nlong", b" line\nc", b""])
    >>> list(LineBlocks(lambda size: next(parts), start=0, max_line_bytes=2))
    [(0, b'a\n'), (2, bytearray(b'bb\n')), (5, LongLine(num_bytes=9)), (15, bytearray(b'c'))]
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        *,
        start: int,
        max_line_bytes: int,
        is_broken: Callable[[], bool] = lambda: False,
    ) -> None:
        self._read = read
        self._max_bytes = max_line_bytes + _AROUND_BYTES
        self._is_broken = is_broken
        self.position = start
        """Position of the next line; at the end of a broken stream, of the incomplete line."""
        self._open: bytearray = bytearray()
        self._dropped = 0  # bytes of the current line, if it is above the limit
        self._last = b""

    def __iter__(self) -> Iterator[tuple[int, bytes | bytearray | LongLine]]:
        while data := self._read(BLOCK_BYTES):
            if self._open or self._dropped:
                end = data.find(b"\n") + 1
                self._extend(data[:end] if end else data)
                if not end:
                    continue
                yield self._close()
                data = data[end:]
            end = data.rfind(b"\n") + 1
            if end:
                yield self._next(end), data[:end]
            self._extend(data[end:])
        if (self._open or self._dropped) and not self._is_broken():
            yield self._close()

    def _extend(self, data: bytes) -> None:
        if self._dropped:
            self._dropped += len(data)
        else:
            self._open += data
        if len(self._open) > self._max_bytes:
            self._dropped, self._open = len(self._open), bytearray()
        self._last = (self._last + data[-2:])[-2:]

    def _close(self) -> tuple[int, bytearray | LongLine]:
        """Return the current line and release it."""
        line, self._open = self._open, bytearray()
        size, self._dropped = self._dropped, 0
        last, self._last = self._last, b""
        if not size:
            return self._next(len(line)), line
        broken_off = len(last) - len(last.rstrip(_LINE_BREAK)) if last.endswith(b"\n") else 0
        return self._next(size), LongLine(size - broken_off)

    def _next(self, size: int) -> int:
        self.position += size
        return self.position - size


_LINE_FEED, _CARRIAGE_RETURN, _SPACE = b"\n\r "
_WHITE = re.compile(rb"\s*")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lines:
    """The lines of a block that are not blank."""

    data: NDArray[np.uint8]
    """The block."""
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    """Where each line starts in the block and where it ends, without its line break."""
    positions: NDArray[np.int64]
    """Position of each line in the file."""
    blank: int
    """Number of blank lines."""

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, index: int) -> memoryview:
        """Return a line, which is not copied."""
        return self.data[self.starts[index] : self.stops[index]].data

    def alone(self) -> Documents:
        """Return the lines without line breaks; a single one is not copied."""
        if len(self) == 1:
            return Documents(data=self.data, offsets=np.concatenate([self.starts, self.stops]))
        gaps = np.concatenate([[0], self.stops]), np.concatenate([self.starts, [len(self.data)]])
        starts, stops = (bounds[gaps[0] < gaps[1]] for bounds in gaps)
        is_kept = np.ones(len(self.data), dtype=bool)
        is_kept[starts] = is_kept[stops - 1] = False  # nearly always all of the gap
        for gap in np.flatnonzero(stops - starts > len(_LINE_BREAK)):
            is_kept[starts[gap] : stops[gap]] = False
        return Documents(data=self.data[is_kept], offsets=offsets_of(self.stops - self.starts))

    def with_breaks(self) -> Documents:
        """Return the lines, each with all white space up to the next one; none is copied."""
        if len(self) == 1:
            return self.alone()
        ends = np.array([len(self.data)] if len(self) else [0])
        return Documents(data=self.data, offsets=np.concatenate([self.starts, ends]))


def split_lines(block: bytes | bytearray, *, position: int, is_json: bool = False) -> Lines:
    r"""Return the lines of a block at a position of a file: bytes that end with a line break.

    A bytearray is one line. A blank line is empty; in JSON it can also contain white space. A byte
    order mark at the start of the file is removed.

    >>> lines = split_lines(b"one\r\n\n2\n", position=5)
    >>> list(lines.alone()), lines.positions.tolist(), lines.blank
    ([b'one', b'2'], [5, 11], 1)
    """
    data = np.frombuffer(block, dtype=np.uint8)
    if isinstance(block, bytearray):
        ends = np.array([len(data) - block.endswith(b"\n")])
    else:
        ends = np.flatnonzero(data == _LINE_FEED)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    positions = starts + position
    starts[0] += len(BOM) * (position == 0 and block.startswith(BOM))
    stops = ends - ((ends > starts) & (data[ends - 1] == _CARRIAGE_RETURN))
    filled = stops > starts
    if is_json:  # few lines begin with white space
        for number in np.flatnonzero(filled)[data[starts[filled]] <= _SPACE].tolist():
            is_white = _WHITE.fullmatch(block, int(starts[number]), int(stops[number]))
            filled[number] = is_white is None
    return Lines(
        data=data,
        starts=starts[filled],
        stops=stops[filled],
        positions=positions[filled],
        blank=int(np.count_nonzero(~filled)),
    )


Blocks = Iterator[tuple[int, bytes | bytearray | LongLine]]
"""Position of the first line, and whole lines, as `LineBlocks` returns them."""


def read_lines(piece: Piece, rules: DocumentRules, account: ReadAccount) -> Iterator[Batch]:
    """Yield the documents of a piece of a line file; a line above the limit is quarantined.

    Raises:
        SourceError: The file has changed since the plan was made.
    """
    builder = batch_builder(rules)
    read = _read_range if piece.file.compression is None else _read_stream
    blocks = read(piece, builder, account, rules.max_document_bytes)
    yield from lines_to_batches(blocks, builder, rules, is_json=piece.file.format == "jsonl")


def batch_builder(rules: DocumentRules) -> BatchBuilder:
    """Return the builder of batches of documents."""
    with_ids = rules.id_column is not None
    return BatchBuilder(batch_documents=rules.batch_documents, with_document_ids=with_ids)


def lines_to_batches(
    blocks: Blocks, builder: BatchBuilder, rules: DocumentRules, *, is_json: bool
) -> Iterator[Batch]:
    """Yield the documents of blocks of lines; `blocks` can add a tail to `builder`."""
    for position, block in blocks:
        batches = list(_batches(block, position, builder, rules, is_json=is_json))
        block = b""  # noqa: PLW2901 - only the batch holds on to what is large
        while batches:
            yield batches.pop(0)
    if not builder.is_empty:
        yield builder.take()


def _batches(
    block: bytes | bytearray | LongLine,
    position: int,
    builder: BatchBuilder,
    rules: DocumentRules,
    *,
    is_json: bool,
) -> Iterator[Batch]:
    """Yield the batches that a block fills."""
    if isinstance(block, LongLine):
        reason = too_large(f"{block.num_bytes} bytes", limit=rules.max_document_bytes)
        builder.set_aside_unread(block.num_bytes, position=position, reason=reason)
    elif is_json and block.isspace():
        builder.skip_blank(block.count(b"\n") + (not block.endswith(b"\n")))
    else:
        lines = split_lines(block, position=position, is_json=is_json)
        builder.skip_blank(lines.blank)
        yield from _added(builder, lines, _read(lines, rules, is_json=is_json), rules)
    if builder.is_full:
        yield builder.take()


def _read(lines: Lines, rules: DocumentRules, *, is_json: bool) -> ReadLines:
    if not is_json:
        return read_text(lines.alone())
    is_text = rules.kind == "text" and not rules.columns  # a function gets several fields
    return read_json(
        lines.with_breaks() if is_text else lines.alone(),
        field=rules.column if is_text else None,
        id_field=rules.id_column,
    )


def _added(
    builder: BatchBuilder, lines: Lines, read: ReadLines, rules: DocumentRules
) -> Iterator[Batch]:
    """Add the documents of lines, quarantine the other lines, and yield full batches."""
    limit = rules.max_document_bytes
    large = np.flatnonzero(lines.stops - lines.starts > limit).tolist()
    start = 0
    for other in [*sorted({*read.others, *large}), len(lines)]:
        while start < other:
            start = builder.add_some(
                read.documents, lines.positions, ids=read.ids, first=start, stop=other
            )
            if builder.is_full:
                yield builder.take()
        if other < len(lines):
            _add_other(builder, lines, other, read, limit=limit)
            if builder.is_full:
                yield builder.take()
        start = other + 1


def _add_other(
    builder: BatchBuilder, lines: Lines, index: int, read: ReadLines, *, limit: int
) -> None:
    """Add the document of a line that Python has read, or quarantine the line."""
    line, position = lines.line(index), int(lines.positions[index])
    if len(line) > limit:
        reason = too_large(f"{len(line)} bytes", limit=limit)
        builder.set_aside_unread(len(line), position=position, reason=reason)
        return
    document, id_text = read.others[index]
    if isinstance(document, Rejected):
        builder.set_aside(line, position=position, reason=document.reason, id_text=id_text)
    else:
        builder.add(document, position=position, id_text=id_text)


def _read_range(piece: Piece, _: BatchBuilder, account: ReadAccount, max_line_bytes: int) -> Blocks:
    """Yield position and bytes of blocks of lines of a byte range."""
    with open_planned(piece.file, at=max(0, piece.start - 1)) as file:
        piece_bytes = _PieceBytes(file, piece, account=account)
        yield from LineBlocks(
            piece_bytes.read, start=piece_bytes.position, max_line_bytes=max_line_bytes
        )
        check_unchanged(piece.file, version_of(file, again=True))


class _PieceBytes:
    """A stream of the bytes of the lines that begin in a piece."""

    def __init__(self, file: BinaryIO, piece: Piece, *, account: ReadAccount) -> None:
        self._file = file
        self._piece = piece
        self._account = account
        self._is_between_lines = True
        self.position = _first_line(file, piece.start)

    def read(self, size: int) -> bytes:
        """Return the next bytes, or nothing at the end."""
        left = self._piece.stop - self.position
        if left > 0:
            data = self._file.read(min(size, left))
            if not data:
                planned = self._piece.stop
                raise changed(self._piece.file, f"{self.position} bytes, {planned} were planned")
        elif self._is_between_lines:
            return b""
        else:
            data = self._file.readline(size)
        self._account.update(data)
        self._account.check_time()
        self.position += len(data)
        self._is_between_lines = data.endswith(b"\n")
        return data


def _first_line(file: BinaryIO, start: int) -> int:
    """Go to the first line that begins at or after `start`, and return its position.

    A line begins after a line break, so the search begins one byte earlier. The skipped line can
    be long and is therefore read in blocks.
    """
    if start == 0:
        file.seek(0)
        return 0
    position = file.seek(start - 1)
    while rest := file.readline(BLOCK_BYTES):
        position += len(rest)
        if rest.endswith(b"\n"):
            break
    return position


def _read_stream(
    piece: Piece, builder: BatchBuilder, account: ReadAccount, max_line_bytes: int
) -> Blocks:
    """Yield position and bytes of the blocks of a compressed file, up to any damage."""
    with (
        StoredFile(piece, account=account) as stored,
        closing(DecodedStream(stored)) as stream,
    ):
        blocks = LineBlocks(
            stream.read,
            start=0,
            max_line_bytes=max_line_bytes,
            is_broken=lambda: stream.failure is not None,
        )
        yield from blocks
        stored.finish()
        if stream.problem is not None:
            num_bytes = piece.stop - stored.block_start
            builder.end_early(stream.problem, position=blocks.position, num_bytes=num_bytes)
