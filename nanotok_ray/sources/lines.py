r"""Pieces of line files: JSON lines and plain lines, whole when compressed, else byte ranges.

Takes a piece; gives batches. A line ends at \n and belongs to the piece in which its first byte
lies, so that neighbouring pieces give every line once wherever they are cut. Does not know what a
field or a conversation means.
"""

import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import Rejected, check_conversation, check_text, text_of
from nanotok_ray.sources.stored import (
    BLOCK_BYTES,
    DecodedStream,
    ReadAccount,
    StoredFile,
    changed,
)
from nanotok_ray.storage import open_input

_BOM = b"\xef\xbb\xbf"

_Parser = Callable[[bytes], bytes | Rejected]


def read_lines(
    piece: Piece, *, kind: str, column: str, batch_documents: int, account: ReadAccount
) -> Iterator[Batch]:
    """Give the documents of a piece of a line file.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    builder = BatchBuilder(batch_documents=batch_documents)
    parse = _parser(piece, kind=kind, column=column)
    is_blank = _is_blank_json if piece.format == "jsonl" else _is_empty
    lines = (
        _lines_of_range(piece, account=account)
        if piece.compression is None
        else _lines_of_stream(piece, builder=builder, account=account)
    )
    for position, stored_line in lines:
        line = _content(stored_line, position=position)
        if is_blank(line):
            builder.skip_blank()
            continue
        document = parse(line)
        if isinstance(document, Rejected):
            builder.set_aside(line, position=position, reason=document.reason)
        else:
            builder.add(document, position=position)
        if builder.is_full:
            yield builder.take()
    if not builder.is_empty:
        yield builder.take()


def _parser(piece: Piece, *, kind: str, column: str) -> _Parser:
    if piece.format == "lines":
        return check_text
    if kind == "chat":
        return check_conversation
    return lambda line: text_of(line, field=column)


def _is_blank_json(line: bytes) -> bool:
    return not line or line.isspace()


def _is_empty(line: bytes) -> bool:
    return not line


def _content(line: bytes, *, position: int) -> bytes:
    """Take off the line break, one carriage return, and the byte order mark of the file."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    return line.removeprefix(_BOM) if position == 0 else line


def _lines_of_range(piece: Piece, *, account: ReadAccount) -> Iterator[tuple[int, bytes]]:
    """Give position and bytes of the lines of a byte range."""
    with open_input(piece.url) as file:
        size = file.seek(0, io.SEEK_END)
        if size < piece.stop:
            raise changed(piece, f"{size} bytes, {piece.stop} were planned")
        position = _first_line(file, piece.start)
        while position < piece.stop:
            line = file.readline()
            if not line:
                raise changed(piece, f"{position} bytes, {piece.stop} were planned")
            account.update(line)
            yield position, line
            position += len(line)


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


def _lines_of_stream(
    piece: Piece, *, builder: BatchBuilder, account: ReadAccount
) -> Iterator[tuple[int, bytes]]:
    """Give position and bytes of the lines of a compressed file, as far as it can be decoded."""
    assert piece.compression is not None
    with StoredFile(piece.url, account=account) as stored:
        stream = DecodedStream(stored, url=piece.url, compression=piece.compression)
        lines = io.BufferedReader(stream, buffer_size=BLOCK_BYTES)
        position = 0
        while line := lines.readline():
            if stream.failure is not None and not line.endswith(b"\n"):
                break
            yield position, line
            position += len(line)
        lost_from = stored.block_start
        stored.finish(piece)
        if stream.failure is not None:
            builder.end_early(
                f"{piece.compression} stream is broken ({stream.failure}); "
                f"stored bytes {lost_from} to {piece.stop} are lost in part or whole",
                position=position,
                num_bytes=piece.stop - lost_from,
            )
