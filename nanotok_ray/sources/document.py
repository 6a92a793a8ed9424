"""Pieces of which each is one file and one document.

Takes a piece; gives one batch. The document is the file's decoded bytes as they are. Does not know
lines or fields.
"""

import io
from collections.abc import Iterator

from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import Rejected, check_text
from nanotok_ray.sources.stored import (
    BLOCK_BYTES,
    DecodedStream,
    ReadAccount,
    StoredFile,
)


def read_document(piece: Piece, *, account: ReadAccount) -> Iterator[Batch]:
    """Give the one document of a file; an empty file is an empty document.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    builder = BatchBuilder(batch_documents=1)
    with StoredFile(piece.url, account=account) as stored:
        content, failure = _read_all(stored, piece)
        lost_from = stored.block_start
        stored.finish(piece)
    if failure is not None:
        builder.end_early(
            f"{piece.compression} stream is broken ({failure}); "
            f"stored bytes {lost_from} to {piece.stop} are lost in part or whole",
            position=0,
            num_bytes=piece.stop,
        )
    elif isinstance(document := check_text(content), Rejected):
        builder.set_aside(content, position=0, reason=document.reason)
    else:
        builder.add(document, position=0)
    yield builder.take()


def _read_all(stored: StoredFile, piece: Piece) -> tuple[bytes, str | None]:
    if piece.compression is None:
        return stored.read(-1), None
    stream = DecodedStream(stored, url=piece.url, compression=piece.compression)
    return io.BufferedReader(stream, buffer_size=BLOCK_BYTES).read(), stream.failure
