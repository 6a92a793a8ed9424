"""Reads a piece of a file in batches, and hashes the bytes that were read."""

from collections.abc import Callable, Iterator

from nanotok_ray.errors import SourceError
from nanotok_ray.sources.batch import Batch, BatchBuilder
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.json_lines import invalid_utf8, too_large
from nanotok_ray.sources.lines import read_lines
from nanotok_ray.sources.parquet import read_row_groups
from nanotok_ray.sources.stored import DecodedStream, ReadAccount, StoredFile, invalid_at
from nanotok_ray.sources.transform import transformed
from nanotok_ray.storage import unreadable

_BLOCK_BYTES = 1 << 20


def read_document(piece: Piece, rules: DocumentRules, account: ReadAccount) -> Iterator[Batch]:
    """Yield the single document of a file; an empty file is an empty document.

    Decoding stops as soon as the document exceeds the limit.

    Raises:
        SourceError: The file has changed since the plan was made.
    """
    builder, max_document_bytes = BatchBuilder(batch_documents=1), rules.max_document_bytes
    size, content, problem = f"{piece.stop} bytes", bytearray(), None
    with StoredFile(piece, account=account) as stored:
        if piece.file.compression is not None:
            size = f"over {max_document_bytes} bytes"
            stream = DecodedStream(stored)
            content = _read_up_to(stream.read, max_document_bytes + 1)
            problem = stream.problem
        elif piece.stop <= max_document_bytes:
            content = _read_up_to(stored.read, piece.stop)
        stored.finish()
    is_too_large = max_document_bytes < (len(content) if piece.file.compression else piece.stop)
    if is_too_large:
        reason = too_large(size, limit=max_document_bytes)
        builder.set_aside_unread(piece.stop, position=0, reason=reason)
    elif problem is not None:
        builder.end_early(problem, position=0, num_bytes=piece.stop)
    elif (position := invalid_at(content)) is not None:
        builder.set_aside(content, position=0, reason=invalid_utf8(position))
    else:
        builder.add(content, position=0)
    content = bytearray()  # only the batch keeps large documents in memory
    yield builder.take()


def _read_up_to(read: Callable[[int], bytes], max_bytes: int) -> bytearray:
    """Read to the end, but at most `max_bytes` bytes."""
    content = bytearray()
    while len(content) < max_bytes and (data := read(min(_BLOCK_BYTES, max_bytes - len(content)))):
        content += data
    return content


class PieceReader:
    """One pass over a piece. `sha256` and `num_bytes` are valid after its end."""

    def __init__(self, batches: Iterator[Batch], *, piece: Piece, account: ReadAccount) -> None:
        self._batches = batches
        self._piece = piece
        self._account = account
        self._is_over = False

    def __iter__(self) -> Iterator[Batch]:
        try:
            yield from self._batches
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            problem = unreadable(self._piece.file.url, error)
            raise SourceError(
                f"{problem}; it existed when the plan was made: check that every worker can read it"
            ) from error
        self._is_over = True

    @property
    def sha256(self) -> str:
        """Hex sha256 of the stored bytes behind the piece.

        These are the whole file if it is compressed or one document, and otherwise the lines of the
        piece or the column chunks of its row groups.
        """
        assert self._is_over, "the piece was not read to its end"
        return self._account.sha256

    @property
    def num_bytes(self) -> int:
        """The number of bytes that `sha256` covers."""
        assert self._is_over, "the piece was not read to its end"
        return self._account.num_bytes


def read_piece(
    piece: Piece,
    rules: DocumentRules,
    *,
    deadline: float | None = None,
    with_check: bool = True,
) -> PieceReader:
    """Read the documents of a piece in order, in bounded memory.

    A document larger than the limit is quarantined with the reason `too large: ...`. Reading ends
    at the deadline, a time of `time.monotonic`. With `with_check`, a function of the source is
    called twice for the first rows.

    Iterating raises:
        SourceError: The file has been removed or changed since the plan was made, or the function
            is not as it must be; see `transformed`.
        TransientIOError: A remote store failed temporarily.
        TimeIsUpError: The deadline is over.
    """
    account = ReadAccount(deadline=deadline)
    read = _READERS.get(piece.file.format, read_lines)
    batches = read(piece, rules, account)
    if rules.transform is not None:
        is_json_lines = piece.file.format == "jsonl"
        batches = transformed(batches, rules, is_json_lines=is_json_lines, with_check=with_check)
    return PieceReader(batches, piece=piece, account=account)


_READERS = {"document": read_document, "parquet": read_row_groups}
