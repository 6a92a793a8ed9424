"""Pieces of which each is one file and one document.

Takes a piece; gives one batch. The document is the file's decoded bytes as they are. Does not know
lines or fields.
"""

from collections.abc import Callable, Iterator

from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import Rejected, check_text, too_large
from nanotok_ray.sources.stored import DecodedStream, ReadAccount, StoredFile

_BLOCK_BYTES = 1 << 20


def read_document(
    piece: Piece, *, account: ReadAccount, max_document_bytes: int
) -> Iterator[Batch]:
    """Give the one document of a file; an empty file is an empty document.

    Of one above the limit no more is decoded than shows that it is.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    builder = BatchBuilder(batch_documents=1)
    size, content, failure = f"{piece.stop} bytes", bytearray(), None
    with StoredFile(piece, account=account) as stored:
        if piece.compression is not None:
            size = f"over {max_document_bytes} bytes"
            stream = DecodedStream(stored, url=piece.url, compression=piece.compression)
            content = _read_up_to(stream.read, max_document_bytes + 1)
            failure = stream.failure
        elif piece.stop <= max_document_bytes:
            content = _read_up_to(stored.read, piece.stop)
        lost_from = stored.block_start
        stored.finish(piece)
    is_too_large = max_document_bytes < (len(content) if piece.compression else piece.stop)
    if is_too_large:
        reason = too_large(size, limit=max_document_bytes)
        builder.set_aside_unread(piece.stop, position=0, reason=reason)
    elif failure is not None:
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
    content, document = bytearray(), b""  # only the batch holds on to what is large
    yield builder.take()


def _read_up_to(read: Callable[[int], bytes], most: int) -> bytearray:
    """Read to the end, or so much."""
    content = bytearray()
    while len(content) < most and (data := read(min(_BLOCK_BYTES, most - len(content)))):
        content += data
    return content
