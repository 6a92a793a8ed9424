"""Documents of line files, JSON lines and plain lines, in blocks of whole lines."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.json_lines import (
    Raw,
    Rejected,
    check_text,
    conversation_and_id,
    text_and_id,
    too_large,
    too_many_values,
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlainLines:
    """The lines of a block that are not blank."""

    documents: Documents
    positions: NDArray[np.int64]
    """Position of each line in the block."""
    blank: int
    """Number of blank lines."""


def split_plain(block: bytes, *, max_line_bytes: int, is_json: bool = False) -> PlainLines | None:
    r"""Return the lines of a block that ends with a line break.

    A blank line is empty; in JSON it can also contain white space. Return None if a line has more
    than `max_line_bytes` bytes or is not UTF-8.

    >>> lines = split_plain(b"one\r\n\n2\n", max_line_bytes=3)
    >>> list(lines.documents), lines.positions.tolist(), lines.blank
    ([b'one', b'2'], [0, 6], 1)
    """
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    has_return = (ends > starts) & (data[ends - 1] == _CARRIAGE_RETURN)
    lengths = ends - starts - has_return
    if lengths.max() > max_line_bytes:
        return None
    is_text = np.ones(len(data), dtype=bool)
    is_text[ends] = False
    is_text[ends[has_return] - 1] = False
    filled = lengths > 0
    if is_json:
        for number in _white(block, data, starts, filled):
            filled[number] = False
            is_text[starts[number] : ends[number]] = False
    lengths = lengths[filled]
    documents = Documents(data=data[is_text], offsets=offsets_of(lengths))
    try:
        documents.to_arrow().validate(full=True)
    except pa.ArrowInvalid:
        return None
    blank = len(filled) - len(lengths)
    return PlainLines(documents=documents, positions=starts[filled], blank=blank)


def _white(
    block: bytes, data: NDArray[np.uint8], starts: NDArray[np.int64], filled: NDArray[np.bool_]
) -> list[int]:
    """Return the indexes of non-empty lines of only white space; few lines begin with it."""
    may_be = np.flatnonzero(filled & (data[starts] <= _SPACE))
    return [number for number in may_be.tolist() if _is_white(block, int(starts[number]))]


def _is_white(block: bytes, start: int) -> bool:
    return block[start : block.index(b"\n", start)].isspace()


_BOM = b"\xef\xbb\xbf"

_Parser = Callable[[Raw], tuple[Raw | Rejected, bytes]]
"""Called with a line; returns its document and its id, which can be empty."""
Blocks = Iterator[tuple[int, Raw | LongLine]]
"""Position of the first line, and whole lines."""
_Lines = Iterator[tuple[int, Raw | LongLine | PlainLines]]


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
    max_bytes = rules.max_document_bytes
    parse = _parser(rules, is_json=is_json)
    is_unchanged = parse in {_unchanged_line, _unchanged_json}
    is_blank = _is_blank_json if is_json else _is_empty
    for position, line in _lines(
        blocks, plain=max_bytes if is_unchanged else None, is_json=is_json
    ):
        if isinstance(line, PlainLines):
            builder.skip_blank(line.blank)
            index, positions = 0, line.positions + position
            while index < len(line.documents):
                index = builder.add_some(line.documents, positions, first=index)
                if builder.is_full:
                    yield builder.take()
            continue
        if is_blank(line):
            builder.skip_blank()
            continue
        _add(builder, line, position=position, parse=parse, max_bytes=max_bytes)
        if builder.is_full:
            line = b""  # noqa: PLW2901 - only the batch holds on to what is large
            yield builder.take()
    if not builder.is_empty:
        yield builder.take()


def _add(
    builder: BatchBuilder, line: Raw | LongLine, *, position: int, parse: _Parser, max_bytes: int
) -> None:
    """Add the document of a line, or quarantine the line."""
    if isinstance(line, LongLine) or len(line) > max_bytes:
        size = line.num_bytes if isinstance(line, LongLine) else len(line)
        reason = too_large(f"{size} bytes", limit=max_bytes)
        builder.set_aside_unread(size, position=position, reason=reason)
        return
    document, id_text = parse(line)
    if isinstance(document, Rejected):
        builder.set_aside(line, position=position, reason=document.reason, id_text=id_text)
    else:
        builder.add(document, position=position, id_text=id_text)


def _unchanged_line(line: Raw) -> tuple[Raw | Rejected, bytes]:
    """Return a line of text unchanged."""
    return check_text(line), b""


def _unchanged_json(line: Raw) -> tuple[Raw | Rejected, bytes]:
    """Return a line of JSON unchanged, which the caller parses."""
    many = too_many_values(line)
    return check_text(line) if many is None else Rejected(many), b""


def _parser(rules: DocumentRules, *, is_json: bool) -> _Parser:
    if not is_json:
        return _unchanged_line
    if rules.kind == "text":
        return partial(text_and_id, field=rules.column, id_field=rules.id_column)
    if rules.id_column is None:
        return _unchanged_json
    return partial(conversation_and_id, id_field=rules.id_column)


def _is_blank_json(line: Raw | LongLine) -> bool:
    return not line or (not isinstance(line, LongLine) and line.isspace())


def _is_empty(line: Raw | LongLine) -> bool:
    return not line


def _lines(blocks: Blocks, *, plain: int | None, is_json: bool) -> _Lines:
    """Yield position and content of each line; plain lines, up to `plain` bytes, in blocks."""
    for start, block in blocks:
        if isinstance(block, LongLine | bytearray):
            only, block = [_content(block, position=start)], b""  # noqa: PLW2901 - not held here
            yield start, only.pop()
            continue
        if plain is not None and start > 0:
            lines = split_plain(block, max_line_bytes=plain, is_json=is_json)
            if lines is not None:
                yield start, lines
                continue
        if is_json and block.isspace():
            yield start, _blank_lines(block)
            continue
        position = start
        for line in block.split(b"\n"):
            if position - start < len(block):  # nothing follows the last line break
                yield position, _content(line, position=position)
            position += len(line) + 1


def _blank_lines(block: bytes) -> PlainLines:
    """Return the lines of a block of white space; its last line can lack a line break."""
    blank = block.count(b"\n") + (not block.endswith(b"\n"))
    nothing = np.empty(0, dtype=np.int64)
    return PlainLines(documents=Documents.from_bytes([]), positions=nothing, blank=blank)


def _content(line: Raw | LongLine, *, position: int) -> Raw | LongLine:
    """Remove the line break, one carriage return, and the byte order mark of the file."""
    if isinstance(line, LongLine):
        return line
    if isinstance(line, bytearray):  # the methods below would copy it
        del line[len(line) - line.endswith(b"\n") :]
        del line[len(line) - line.endswith(b"\r") :]
        del line[: len(_BOM) * (position == 0 and line.startswith(_BOM))]
        return line
    line = line.removesuffix(b"\r")
    return line.removeprefix(_BOM) if position == 0 else line


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
