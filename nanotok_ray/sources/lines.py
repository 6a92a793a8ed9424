r"""Pieces of line files: JSON lines and plain lines, whole when compressed, else byte ranges.

Takes a piece; gives batches. Lines of conversations are documents as they are, and parsed only for
their ids. A line ends at \n and belongs to the piece in which its first byte
lies, so that neighbouring pieces give every line once wherever they are cut. Does not know what a
field or a conversation means.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import BinaryIO

from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import (
    Raw,
    Rejected,
    check_text,
    conversation_and_id,
    text_and_id,
    too_large,
)
from nanotok_ray.sources.line_blocks import BLOCK_BYTES, LineBlocks, LongLine
from nanotok_ray.sources.plain_lines import PlainLines, split_plain
from nanotok_ray.sources.stored import (
    DecodedStream,
    ReadAccount,
    StoredFile,
    changed,
    check_unchanged,
    open_piece,
)
from nanotok_ray.storage import version_of

_BOM = b"\xef\xbb\xbf"

_Parser = Callable[[Raw], tuple[Raw | Rejected, bytes]]
"""Takes a line; gives its document and its id, which may be empty."""
Blocks = Iterator[tuple[int, Raw | LongLine]]
"""Position of the first line, and whole lines."""
_Lines = Iterator[tuple[int, Raw | LongLine | PlainLines]]


def read_lines(
    piece: Piece,
    *,
    kind: str,
    column: str,
    id_column: str | None,
    batch_documents: int,
    account: ReadAccount,
    max_document_bytes: int,
) -> Iterator[Batch]:
    """Give the documents of a piece of a line file; a line above the limit is none.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    builder = BatchBuilder(batch_documents=batch_documents, with_document_ids=id_column is not None)
    read = _read_range if piece.compression is None else _read_stream
    yield from lines_to_batches(
        read(piece, builder, account, max_document_bytes),
        builder,
        is_json=piece.format == "jsonl",
        kind=kind,
        column=column,
        id_column=id_column,
        max_document_bytes=max_document_bytes,
    )


def lines_to_batches(
    blocks: Blocks,
    builder: BatchBuilder,
    *,
    is_json: bool,
    kind: str,
    column: str,
    id_column: str | None,
    max_document_bytes: int,
) -> Iterator[Batch]:
    """Yield the documents of blocks of lines; `builder` may be given a tail meanwhile."""
    is_whole = not is_json or (kind != "text" and id_column is None)
    parse = _whole_line if is_whole else _parser(kind=kind, column=column, id_column=id_column)
    is_blank = _is_blank_json if is_json else _is_empty
    for position, line in _lines(
        blocks,
        plain=max_document_bytes if is_whole else None,
        is_json=is_json,
    ):
        if isinstance(line, PlainLines):
            builder.skip_blank(line.blank)
            place, positions = 0, line.places + position
            while place < len(line.documents):
                place = builder.add_some(line.documents, positions, first=place)
                if builder.is_full:
                    yield builder.take()
            continue
        if is_blank(line):
            builder.skip_blank()
            continue
        _add(builder, line, position=position, parse=parse, most=max_document_bytes)
        if builder.is_full:
            line = b""  # noqa: PLW2901 - only the batch holds on to what is large
            yield builder.take()
    if not builder.is_empty:
        yield builder.take()


def _add(
    builder: BatchBuilder, line: Raw | LongLine, *, position: int, parse: _Parser, most: int
) -> None:
    """Add the document of a line, or set the line aside."""
    if isinstance(line, LongLine) or len(line) > most:
        size = line.num_bytes if isinstance(line, LongLine) else len(line)
        reason = too_large(f"{size} bytes", limit=most)
        builder.set_aside_unread(size, position=position, reason=reason)
        return
    document, own = parse(line)
    if isinstance(document, Rejected):
        builder.set_aside(line, position=position, reason=document.reason, id_text=own)
    else:
        builder.add(document, position=position, id_text=own)


def _whole_line(line: Raw) -> tuple[Raw | Rejected, bytes]:
    """Take a line as it is: a text, or JSON that whoever uses it parses."""
    return check_text(line), b""


def _parser(*, kind: str, column: str, id_column: str | None) -> _Parser:
    if kind != "text":
        return lambda line: conversation_and_id(line, id_field=id_column)
    return lambda line: text_and_id(line, field=column, id_field=id_column)


def _is_blank_json(line: Raw | LongLine) -> bool:
    return not line or (not isinstance(line, LongLine) and line.isspace())


def _is_empty(line: Raw | LongLine) -> bool:
    return not line


def _lines(blocks: Blocks, *, plain: int | None, is_json: bool) -> _Lines:
    """Give position and content of each line; of plain ones, up to so many bytes, many at once."""
    for start, block in blocks:
        if isinstance(block, LongLine | bytearray):
            only, block = [_content(block, position=start)], b""  # noqa: PLW2901 - not held here
            yield start, only.pop()
            continue
        if plain is not None and start > 0:
            lines = split_plain(block, most=plain, is_json=is_json)
            if lines is not None:
                yield start, lines
                continue
        position = start
        for line in block.split(b"\n"):
            if position - start < len(block):  # there is nothing behind the last line break
                yield position, _content(line, position=position)
            position += len(line) + 1


def _content(line: Raw | LongLine, *, position: int) -> Raw | LongLine:
    """Take off the line break, one carriage return, and the byte order mark of the file."""
    if isinstance(line, LongLine):
        return line
    if isinstance(line, bytearray):  # of which the methods below would make copies
        del line[len(line) - line.endswith(b"\n") :]
        del line[len(line) - line.endswith(b"\r") :]
        del line[: len(_BOM) * (position == 0 and line.startswith(_BOM))]
        return line
    line = line.removesuffix(b"\r")
    return line.removeprefix(_BOM) if position == 0 else line


def _read_range(piece: Piece, _: BatchBuilder, account: ReadAccount, max_line_bytes: int) -> Blocks:
    """Give position and bytes of the blocks of lines of a byte range."""
    with open_piece(piece) as file:
        own = _OwnBytes(file, piece, account=account)
        yield from LineBlocks(own.read, start=own.position, max_line_bytes=max_line_bytes)
        check_unchanged(piece, version_of(file, again=True))


class _OwnBytes:
    """The bytes of the lines that begin in a piece, as a stream."""

    def __init__(self, file: BinaryIO, piece: Piece, *, account: ReadAccount) -> None:
        self._file = file
        self._piece = piece
        self._account = account
        self._is_between_lines = True
        self.position = _first_line(file, piece.start)

    def read(self, size: int) -> bytes:
        """Give the next bytes, none at the end."""
        left = self._piece.stop - self.position
        if left > 0:
            data = self._file.read(min(size, left))
            if not data:
                planned = self._piece.stop
                raise changed(self._piece, f"{self.position} bytes, {planned} were planned")
        elif self._is_between_lines:
            return b""
        else:
            data = self._file.readline(size)
        self._account.update(data)
        self.position += len(data)
        self._is_between_lines = data.endswith(b"\n")
        return data


def _first_line(file: BinaryIO, start: int) -> int:
    """Go to the first line that begins at or after `start`, and give its position.

    A line begins where the byte before is a line break, so the search begins one byte earlier. The
    line it skips may be long, hence in blocks.
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
    """Give position and bytes of the blocks of lines of a compressed file, as far as it decodes."""
    assert piece.compression is not None
    with (
        StoredFile(piece, account=account) as stored,
        closing(DecodedStream(stored, url=piece.url, compression=piece.compression)) as stream,
    ):
        blocks = LineBlocks(
            stream.read,
            start=0,
            max_line_bytes=max_line_bytes,
            is_broken=lambda: stream.failure is not None,
        )
        yield from blocks
        lost_from = stored.block_start
        stored.finish(piece)
        if stream.failure is not None:
            builder.end_early(
                f"{piece.compression} stream is broken ({stream.failure}); "
                f"stored bytes {lost_from} to {piece.stop} are lost in part or whole",
                position=blocks.position,
                num_bytes=piece.stop - lost_from,
            )
