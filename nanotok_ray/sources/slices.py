"""Reads the documents of a slice in batches, and keeps an account for its record.

The account has the bytes read, the number of documents, and the quarantined documents. Slices of
the same pieces can be read together.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import ReadRange
from nanotok_ray.recipe import MAX_DOCUMENT_BYTES
from nanotok_ray.sources.batch import BadDocument, Batch
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.piece_reader import PieceReader, read_piece
from nanotok_ray.sources.plan import Slice
from nanotok_ray.sources.quarantine import (
    BY_CHOICE,
    MAX_ID_CHARS,
    SKIPPED,
    Quarantined,
    QuarantineEntry,
)
from nanotok_ray.sources.transform import Trial, try_function
from nanotok_ray.storage import Folder

_BATCH_DOCUMENTS = {"text": 1024, "chat": 1024, "vision": 128}
"""Fewer for vision, because a line with images can become a million tokens."""


MAX_REASONS: Final = 32
"""Limit of the reasons of dropped rows of a slice that are counted separately."""
OTHER_REASONS: Final = "other reasons"
DUPLICATE_REASON: Final = "duplicate"
"""The reason of documents that are left out because an earlier one is equal."""


@functools.lru_cache(maxsize=4)
def read_list(url: str, sha256: str) -> npt.NDArray[np.uint32]:
    """Return the numbers of the documents of a list of duplicates, in increasing order.

    Raises:
        CorruptOutputError: The file is missing or damaged.
    """
    folder, _, name = url.rpartition("/")
    try:
        data = Folder(folder).read_verified(name, sha256=sha256)
    except FileNotFoundError as error:
        raise CorruptOutputError(
            f"{url}, a list of duplicates, is missing: run the job again, which writes it again"
        ) from error
    return np.frombuffer(data, dtype="<u4")


class AllBadError(Exception):
    """Enough documents of a slice were read, all of them bad, to stop reading."""

    def __init__(self, documents: int, quarantined: Quarantined) -> None:
        super().__init__(f"all of the first {documents:,} documents were quarantined")
        self.documents = documents
        self.quarantined = quarantined


@dataclass(slots=True)
class SliceReading:
    """One pass over a slice. Iterate once, then read the account.

    `documents_in` is the number of documents of the slice, including quarantined ones. With a
    share, documents of the other split are skipped and not counted, and unreadable and dropped rows
    belong to train.
    """

    slice: Slice
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """A larger document is quarantined without reading it."""
    with_document_ids: bool = True
    """Whether to read the document ids, if the slice has an id column."""
    give_up_after: int | None = None
    """Reading ends with an `AllBadError` after so many documents if all are bad; None: never."""
    deadline: float | None = None
    """Reading ends with a `TimeIsUpError` at this time of `time.monotonic`; None: never."""
    documents_in: int = 0
    bytes_given: int = 0
    """Bytes of the documents that were yielded: UTF-8 of texts, lines of conversations."""
    bytes_quarantined: int = 0
    """Bytes that were quarantined; stored bytes for a tail and for a compressed file that is too
    large to decode."""
    blank_lines: int = 0
    other_split: int = 0
    """Documents that the share assigns to the other split."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Rows of which the function of the source made no document, by reason."""
    lost_rows: int = 0
    """Rows of damaged parquet row groups, each of which is one quarantined tail."""
    _bytes_set_aside: int = 0  # bytes of documents that were not yielded
    quarantined: Quarantined = field(default_factory=Quarantined)
    read: list[ReadRange] = field(default_factory=list)
    """What was read of each piece."""

    def __iter__(self) -> Iterator[tuple[int, Batch]]:
        """Yield pairs of the number of a piece and a batch of documents of this slice."""
        for _, number, batch in read_slices([self]):
            yield number, batch

    @property
    def rules(self) -> DocumentRules:
        """How the documents are read."""
        slice_ = self.slice
        return DocumentRules(
            kind=slice_.kind,
            column=slice_.column,
            id_column=slice_.id_column if self.with_document_ids else None,
            tools=slice_.tools,
            transform=slice_.transform,
            columns=() if slice_.transform is None else slice_.transform.columns,
            max_document_bytes=self.max_document_bytes,
            batch_documents=_BATCH_DOCUMENTS[slice_.kind],
        )

    def reader(self, piece: Piece) -> PieceReader:
        """Return a reader of all documents of a piece, including those of the other split."""
        is_first = piece is self.slice.pieces[0]
        return read_piece(piece, self.rules, deadline=self.deadline, with_check=is_first)

    def take(
        self,
        piece: int,
        batch: Batch,
        is_val: npt.NDArray[np.bool_] | None,
        is_duplicate: npt.NDArray[np.bool_] | None = None,
    ) -> Batch:
        """Return the documents of a batch that belong to this slice, and account for the batch.

        `is_val` marks the documents of val; None without a share. `is_duplicate` marks those that
        are left out; None if there are none.
        """
        taken = batch
        if is_val is not None or is_duplicate is not None:
            taken = self._own(batch, is_val, is_duplicate)
        self._account(piece, taken)
        return taken

    def note_read(self, piece: Piece, reader: PieceReader) -> None:
        """Add a piece that was read to its end to the account."""
        self.read.append(
            ReadRange(
                file=piece.file.path,
                start=piece.start,
                stop=piece.stop,
                bytes=reader.num_bytes,
                sha256=reader.sha256,
            )
        )

    def quarantine(self, piece: int, batch: Batch, index: int, *, reason: str) -> None:
        """Quarantine document `index` of a batch that a stage cannot use."""
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
        """Whether all documents were quarantined for other reasons than the user's rules."""
        chosen = sum(self.quarantined.reasons.get(kind, 0) for kind in BY_CHOICE)
        return self.documents_in == len(self.quarantined) - chosen

    def skip(self) -> None:
        """Quarantine every piece as a whole without reading it, because the slice is skipped."""
        for number, piece in enumerate(self.slice.pieces):
            unit = "row groups" if piece.file.format == "parquet" else "bytes"
            reason = f"{SKIPPED}: {unit} {piece.start} to {piece.stop}"
            bad = BadDocument(number=0, position=0, reason=reason, hash64=None, num_bytes=0)
            self.documents_in += 1
            self._enter(number, bad)

    @property
    def bytes_in(self) -> int:
        """Bytes of all documents of the slice, including quarantined ones."""
        return self.bytes_given + self._bytes_set_aside

    @property
    def reasons(self) -> dict[str, int]:
        """The number of quarantined documents for each kind of reason."""
        return self.quarantined.reasons

    def _own(
        self,
        batch: Batch,
        is_val: npt.NDArray[np.bool_] | None,
        is_duplicate: npt.NDArray[np.bool_] | None,
    ) -> Batch:
        """Return the documents of this split that are no duplicates."""
        is_own = np.ones(len(batch.documents), dtype=bool)
        dropped = dict(batch.dropped)
        bad = batch.bad
        if is_val is not None:
            is_own = is_val if self.slice.split == "val" else ~is_val
            self.other_split += len(is_own) - int(np.count_nonzero(is_own))
            if self.slice.split == "val":  # what cannot be hashed belongs to train
                bad, dropped = (), {}
        if is_duplicate is not None:
            if number := int(np.count_nonzero(is_own & is_duplicate)):
                dropped[DUPLICATE_REASON] = number
            is_own = is_own & ~is_duplicate
        kept = batch.take(np.flatnonzero(is_own).astype(np.int64))
        return replace(kept, bad=bad, dropped=dropped)

    def _account(self, piece: int, batch: Batch) -> None:
        self.documents_in += len(batch.documents) + len(batch.bad)
        self.bytes_given += batch.documents.num_bytes
        self.blank_lines += batch.blank
        for reason, number in batch.dropped.items():
            is_new = reason not in self.dropped and len(self.dropped) >= MAX_REASONS
            self.dropped[OTHER_REASONS if is_new else reason] += number
        for bad in batch.bad:
            self._bytes_set_aside += bad.num_bytes
            self._enter(piece, bad)

    def _enter(self, piece: int, bad: BadDocument) -> None:
        self.bytes_quarantined += bad.num_bytes
        self.lost_rows += bad.rows
        self.quarantined.add(
            QuarantineEntry(
                source=self.slice.source,
                file=self.slice.pieces[piece].file.path,
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
        AllBadError: All of them are bad.
    """
    after = readings[0].give_up_after
    documents = sum(reading.documents_in for reading in readings)
    if after is None or documents < after or not all(reading.is_all_bad for reading in readings):
        return
    raise AllBadError(
        documents, next(reading.quarantined for reading in readings if reading.quarantined)
    )


def read_slices(readings: Sequence[SliceReading]) -> Iterator[tuple[int, int, Batch]]:
    """Read pieces that several slices share once; each reading keeps its own account.

    The slices of the readings differ only in their split.

    Yields:
        The number of the reading, the number of the piece, and a batch of documents of the reading.

    Raises:
        AllBadError: See `give_up_after` of the readings.
    """
    first = readings[0]
    duplicates = _Duplicates(first.slice)
    for number, piece in enumerate(first.slice.pieces):
        reader = first.reader(piece)
        for batch in reader:
            _check_bad(readings)
            is_val = None if first.slice.share is None else _is_val(batch, first.slice.share)
            is_duplicate = duplicates.next(len(batch.documents))
            for which, reading in enumerate(readings):
                taken = reading.take(number, batch, is_val, is_duplicate)
                if len(taken.documents):
                    yield which, number, taken
        for reading in readings:
            reading.note_read(piece, reader)


class _Duplicates:
    """The duplicates among the documents of a slice, batch by batch."""

    def __init__(self, slice_: Slice) -> None:
        self._numbers = None if slice_.drops is None else read_list(*slice_.drops)
        self._start = 0

    def next(self, count: int) -> npt.NDArray[np.bool_] | None:
        """Return which of the next documents are duplicates, or None if there is none."""
        start, self._start = self._start, self._start + count
        if self._numbers is None:
            return None
        first, end = np.searchsorted(self._numbers, (start, start + count))
        if first == end:
            return None
        is_duplicate = np.zeros(count, dtype=bool)
        is_duplicate[self._numbers[first:end] - start] = True
        return is_duplicate


def _is_val(batch: Batch, share: str) -> npt.NDArray[np.bool_]:
    """Return which documents of a batch are val: those whose hash64 is below share * 2**64.

    The share is an exact decimal number.
    """
    hashes = _core.hash_documents(batch.documents.data, batch.documents.offsets)
    bound = int(Decimal(share) * (1 << 64))
    if bound >= 1 << 64:
        return np.ones(len(hashes), dtype=np.bool_)
    return np.asarray(hashes < np.uint64(bound))


def tried(reading: SliceReading) -> Trial | None:
    """Return what the function of a slice makes of its first batch; None without documents.

    Raises:
        SourceError: See `transformed`.
    """
    piece, rules = reading.slice.pieces[0], reading.rules
    for batch in read_piece(piece, replace(rules, transform=None), deadline=reading.deadline):
        if len(batch.documents):
            return try_function(batch, rules, is_json_lines=piece.file.format == "jsonl")
    return None
