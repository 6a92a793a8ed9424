"""Reading a slice: its own documents batch by batch, with an account of everything else.

The account has what the record of any stage needs: what was read, how many documents came in, which
were quarantined. Slices of the same pieces can be read together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.recipe import MAX_DOCUMENT_BYTES
from nanotok_ray.sources.batch import BadDocument, Batch
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.piece_reader import PieceReader, read_piece
from nanotok_ray.sources.plan import Slice
from nanotok_ray.sources.quarantine import (
    BY_CHOICE,
    MAX_ID_CHARS,
    SKIPPED,
    Quarantined,
    QuarantineEntry,
)

_BATCH_DOCUMENTS = {"text": 1024, "chat": 1024, "vision": 128}
"""A line that asks for images may become a million tokens."""


class AllBadError(Exception):
    """So many documents of a slice were read, all of them bad, that the rest need not be."""

    def __init__(self, documents: int, quarantined: Quarantined) -> None:
        super().__init__(f"all of the first {documents:,} documents were quarantined")
        self.documents = documents
        self.quarantined = quarantined


@dataclass(slots=True)
class SliceReading:
    """One pass over a slice. Iterate once, then read the account.

    `documents_in` is the number of its own documents, quarantined ones included. With a share, the
    documents of the other split are skipped and not counted; rows that cannot be read are train's.
    """

    slice: Slice
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A larger document is quarantined, unread."""
    with_document_ids: bool = True
    """Whether the documents' ids are read, if the slice has an id column."""
    give_up_after: int | None = None
    """Reading ends with an `AllBadError` after so many documents if all are bad; None: never."""
    documents_in: int = 0
    bytes_given: int = 0
    """Bytes of the documents given: texts as UTF-8, conversations as their lines are."""
    bytes_quarantined: int = 0
    """Bytes of what was quarantined: of a tail, and of a compressed file too large to decode, as
    stored."""
    blank_lines: int = 0
    other_split: int = 0
    """Documents that the share assigns to the other split."""
    _bytes_set_aside: int = 0  # of what was never given
    quarantined: Quarantined = field(default_factory=Quarantined)
    read: list[dict[str, Any]] = field(default_factory=list)
    """Per piece: file, range, bytes and sha256 of what was read."""

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        """Yield (number of the piece, batch of own documents)."""
        for _, number, batch in read_slices([self]):
            yield number, batch

    def reader(self, piece: Piece) -> PieceReader:
        """Return a reader of all documents of a piece, those of the other split among them."""
        return read_piece(
            piece,
            kind=self.slice.kind,
            column=self.slice.column,
            id_column=self.slice.id_column if self.with_document_ids else None,
            max_document_bytes=self.max_document_bytes,
            batch_documents=_BATCH_DOCUMENTS[self.slice.kind],
        )

    def take(self, piece: int, batch: Batch, is_val: npt.NDArray[np.bool_] | None) -> Batch:
        """Return the documents of a batch that belong to this slice, and account for the batch.

        `is_val` says which documents belong to val, None without a share.
        """
        taken = batch if is_val is None else self._of_split(batch, is_val)
        self._account(piece, taken)
        return taken

    def note_read(self, piece: Piece, reader: PieceReader) -> None:
        """Write down what was read of a piece, once it was read to its end."""
        self.read.append(
            {
                "file": piece.path,
                "start": piece.start,
                "stop": piece.stop,
                "bytes": reader.num_bytes,
                "sha256": reader.sha256,
            }
        )

    def quarantine(self, piece: int, batch: Batch, index: int, *, reason: str) -> None:
        """Quarantine document `index` of a batch, which a stage could not use."""
        document, ids = batch.documents.take([index]), batch.document_ids
        self._enter(
            piece,
            BadDocument(
                number=int(batch.numbers[index]),
                position=int(batch.positions[index]),
                reason=reason,
                hash64=int(_core.hash_documents(document.data, document.offsets)[0]),
                num_bytes=document.num_bytes,
                id=None if ids is None else ids[index].decode() or None,
            ),
        )

    @property
    def is_all_bad(self) -> bool:
        """Whether each document that came in was quarantined against the user's will."""
        chosen = sum(self.quarantined.reasons.get(kind, 0) for kind in BY_CHOICE)
        return self.documents_in == len(self.quarantined) - chosen

    def skip(self) -> None:
        """Quarantine every piece as a whole, unread: the slice could not be done."""
        for number, piece in enumerate(self.slice.pieces):
            unit = "row groups" if piece.format == "parquet" else "bytes"
            reason = f"{SKIPPED}: {unit} {piece.start} to {piece.stop}"
            bad = BadDocument(number=0, position=0, reason=reason, hash64=None, num_bytes=0)
            self.documents_in += 1
            self._enter(number, bad)

    @property
    def bytes_in(self) -> int:
        """Bytes of its own documents: of those given and of those set aside."""
        return self.bytes_given + self._bytes_set_aside

    @property
    def reasons(self) -> dict[str, int]:
        """How many documents were quarantined for each kind of reason."""
        return self.quarantined.reasons

    def _of_split(self, batch: Batch, is_val: npt.NDArray[np.bool_]) -> Batch:
        is_train = self.slice.split == "train"
        keep = np.flatnonzero(~is_val if is_train else is_val).astype(np.int64)
        self.other_split += len(batch.documents) - len(keep)
        return replace(batch.take(keep), bad=batch.bad if is_train else ())

    def _account(self, piece: int, batch: Batch) -> None:
        self.documents_in += len(batch.documents) + len(batch.bad)
        self.bytes_given += batch.documents.num_bytes
        self.blank_lines += batch.blank
        for bad in batch.bad:
            self._bytes_set_aside += bad.num_bytes
            self._enter(piece, bad)

    def _enter(self, piece: int, bad: BadDocument) -> None:
        self.bytes_quarantined += bad.num_bytes
        self.quarantined.add(
            QuarantineEntry(
                source=self.slice.source,
                file=self.slice.pieces[piece].path,
                row=bad.number,
                position=bad.position,
                reason=bad.reason,
                hash64=None if bad.hash64 is None else f"{bad.hash64:016x}",
                bytes=bad.num_bytes,
                id=None if bad.id is None else bad.id[:MAX_ID_CHARS],
            )
        )


def _check_bad(readings: Sequence[SliceReading]) -> None:
    """Raise if enough documents were read and all are bad.

    Raises:
        AllBadError: so it is.
    """
    after = readings[0].give_up_after
    documents = sum(reading.documents_in for reading in readings)
    if after is None or documents < after or not all(reading.is_all_bad for reading in readings):
        return
    raise AllBadError(
        documents, next(reading.quarantined for reading in readings if reading.quarantined)
    )


def read_slices(readings: Sequence[SliceReading]) -> Iterator[tuple[int, int, Batch]]:
    """Read pieces that several slices have in common once; each reading keeps its account.

    The readings differ in the split of their slices alone.

    Yields:
        Which reading, number of the piece, a batch of that reading's documents.

    Raises:
        AllBadError: as `give_up_after` of the readings says.
    """
    first = readings[0]
    for number, piece in enumerate(first.slice.pieces):
        reader = first.reader(piece)
        for batch in reader:
            _check_bad(readings)
            is_val = None if first.slice.share is None else _is_val(batch, first.slice.share)
            for which, reading in enumerate(readings):
                taken = reading.take(number, batch, is_val)
                if len(taken.documents):
                    yield which, number, taken
        for reading in readings:
            reading.note_read(piece, reader)


def _is_val(batch: Batch, share: str) -> npt.NDArray[np.bool_]:
    """Return which documents of a batch are val: those whose hash64 is below share * 2**64.

    The share is taken as the exact decimal.
    """
    hashes = _core.hash_documents(batch.documents.data, batch.documents.offsets)
    bound = int(Decimal(share) * (1 << 64))
    if bound >= 1 << 64:
        return np.ones(len(hashes), dtype=np.bool_)
    return np.asarray(hashes < np.uint64(bound))
