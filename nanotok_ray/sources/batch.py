"""Batches of documents with their positions and the quarantined documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.documents import Documents
from nanotok_ray.sources.quarantine import TAIL

MAX_BATCH_BYTES = 16 << 20
"""A batch ends at this size, which bounds memory for long documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BadDocument:
    """A document that cannot be used, or (reason `tail: ...`) the unreadable rest of a piece."""

    number: int
    """Same as in `Batch.numbers`; for a tail, the number of its first document."""
    position: int
    """Same as in `Batch.positions`; for a tail, its start."""
    reason: str
    """The kind of the reason, followed by a colon and details of this document."""
    hash64: int | None
    """None if there are no bytes to hash."""
    num_bytes: int
    """Bytes of the document; for a tail, the unread stored bytes in whole blocks."""
    id: str | None = None
    """Its id; None if it has none or the id cannot be read."""
    rows: int = 0
    """For a tail, the number of its rows, if that is known."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Consecutive documents of a piece."""

    documents: Documents
    """UTF-8 of texts; JSON of chat and vision documents: unchanged lines or rows as objects."""
    positions: NDArray[np.int64]
    """Rows of a Parquet file, or offsets of lines in the decoded file; 0 for one document."""
    numbers: NDArray[np.int64]
    """The row in a Parquet file, or the number of a line in the piece, without blank lines."""
    group: int | None = None
    """The parquet row group."""
    bad: tuple[BadDocument, ...] = ()
    """The bad documents between these documents, in order."""
    blank: int = 0
    """The number of skipped blank lines."""
    document_ids: Documents | None = None
    """The document ids as text, empty for a document without one; None without an id column."""
    columns: pa.RecordBatch | None = None
    """The columns that the function of the source gets besides; None for other sources, for JSON
    lines, and after the function.
    """
    dropped: Mapping[str, int] = field(default_factory=dict)
    """The rows of which the function of the source made no document, by reason."""

    def take(self, at: NDArray[np.int64]) -> "Batch":
        """Return a batch of the chosen documents, in the given order, with all bad documents."""
        ids = self.document_ids
        return replace(
            self,
            documents=self.documents.take(at),
            positions=self.positions[at],
            numbers=self.numbers[at],
            document_ids=None if ids is None else ids.take(at),
        )


def hash64_of(raw: bytes | bytearray | memoryview) -> int:
    """Return the hash64 of bytes without a copy of them."""
    data = np.frombuffer(raw, dtype=np.uint8)
    return int(_core.hash_documents(data, np.array([0, len(raw)], dtype=np.int64))[0])


class BatchBuilder:
    """Collects documents until a batch is full."""

    def __init__(self, *, batch_documents: int, with_document_ids: bool = False) -> None:
        self._batch_documents = batch_documents
        self._with_document_ids = with_document_ids
        self._next_number = 0
        self._clear()

    def add(self, document: bytes | bytearray, *, position: int, id_text: bytes = b"") -> None:
        """Append a document."""
        one, ids = Documents.from_bytes([document]), Documents.from_bytes([id_text])
        self.add_some(one, np.array([position], dtype=np.int64), ids=ids, first=0, stop=1)

    def add_some(
        self,
        documents: Documents,
        positions: NDArray[np.int64],
        *,
        ids: Documents | None,
        first: int,
        stop: int,
    ) -> int:
        """Append documents from `first` to `stop`, as many as fit; return the next one."""
        offsets = documents.offsets
        end = offsets[first] + MAX_BATCH_BYTES - self._num_bytes
        filled = max(first + 1, int(np.searchsorted(offsets, end)))
        stop = min(filled, first + self._batch_documents - self._num_entries, stop)
        part = documents.part(first, stop)
        self._documents.append(part)
        self._positions.append(positions[first:stop])
        self._numbers.append(
            np.arange(self._next_number, self._next_number + stop - first, dtype=np.int64)
        )
        if ids is not None:
            self._document_ids.append(ids.part(first, stop))
        self._num_entries += stop - first
        self._num_bytes += part.num_bytes
        self._next_number += stop - first
        return stop

    def set_aside(
        self,
        raw: bytes | bytearray | memoryview,
        *,
        position: int,
        reason: str,
        id_text: bytes = b"",
    ) -> None:
        """Add bytes that are not a usable document."""
        document_id = id_text.decode() or None
        self._note(position, reason, hash64=hash64_of(raw), num_bytes=len(raw), id_text=document_id)

    def set_aside_unread(self, num_bytes: int, *, position: int, reason: str) -> None:
        """Add a bad document that is too large to keep in memory."""
        self._note(position, reason, hash64=None, num_bytes=num_bytes)

    def end_early(self, reason: str, *, position: int, num_bytes: int) -> None:
        """Add a tail: the rest of the piece cannot be read."""
        self._bad.append(
            BadDocument(
                number=self._next_number,
                position=position,
                reason=f"{TAIL}: {reason}",
                hash64=None,
                num_bytes=num_bytes,
            )
        )

    def skip_blank(self, count: int = 1) -> None:
        """Count blank lines."""
        self._blank += count

    @property
    def is_full(self) -> bool:
        """Whether the batch is full."""
        return self._num_entries >= self._batch_documents or self._num_bytes >= MAX_BATCH_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether the batch has neither documents, bad documents nor blank lines."""
        return not (self._num_entries or self._bad or self._blank)

    def take(self) -> Batch:
        """Return the batch, and start an empty one."""
        nothing = np.empty(0, dtype=np.int64)
        batch = Batch(
            documents=_joined(self._documents),
            positions=np.concatenate([nothing, *self._positions]),
            numbers=np.concatenate([nothing, *self._numbers]),
            bad=tuple(self._bad),
            blank=self._blank,
            document_ids=_joined(self._document_ids) if self._with_document_ids else None,
        )
        self._clear()
        return batch

    def _note(
        self,
        position: int,
        reason: str,
        *,
        hash64: int | None,
        num_bytes: int,
        id_text: str | None = None,
    ) -> None:
        self._bad.append(
            BadDocument(
                number=self._next_number,
                position=position,
                reason=reason,
                hash64=hash64,
                num_bytes=num_bytes,
                id=id_text,
            )
        )
        self._num_bytes += len(reason)
        self._num_entries += 1
        self._next_number += 1

    def _clear(self) -> None:
        self._documents: list[Documents] = []
        self._document_ids: list[Documents] = []
        self._positions: list[NDArray[np.int64]] = []
        self._numbers: list[NDArray[np.int64]] = []
        self._num_entries = 0
        self._bad: list[BadDocument] = []
        self._blank = 0
        self._num_bytes = 0


def _joined(parts: list[Documents]) -> Documents:
    """Return one part as it is: a long document is not copied."""
    return parts[0] if len(parts) == 1 else Documents.joined(parts or [Documents.from_bytes([])])
