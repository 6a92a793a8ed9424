"""Pieces of parquet files: one string column of a run of row groups.

Takes a piece and the exact path of a column; gives batches. Does not know how row groups are
chosen or what the texts are for.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nanotok_ray.documents import Documents
from nanotok_ray.quarantine import TAIL
from nanotok_ray.sources.batch import MAX_BATCH_BYTES, BadDocument, Batch, hash64_of
from nanotok_ray.sources.chunk_file import ChunkFile
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import Rejected, invalid_utf8, too_large
from nanotok_ray.sources.parquet_column import chunk_range, id_number, open_parquet, values_at
from nanotok_ray.sources.parquet_texts import id_texts, is_utf8, plain_texts
from nanotok_ray.sources.stored import ReadAccount, changed, check_unchanged, is_damage
from nanotok_ray.sources.utf8 import invalid_at


def read_row_groups(
    piece: Piece,
    *,
    column: str,
    id_column: str | None,
    batch_documents: int,
    account: ReadAccount,
    max_document_bytes: int,
) -> Iterator[Batch]:
    """Give the texts of a run of row groups; no batch has rows of two of them.

    A row group ends at damage, with a `tail`; the next is read. The account is of all chunks.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    with closing(ChunkFile(piece.url)) as file:
        check_unchanged(piece, file.version())
        parquet, number = open_parquet(file, url=piece.url, column=column)
        check_unchanged(piece, file.version(), footer_sha256=file.footer_sha256())
        ids = [] if id_column is None else [id_number(parquet, url=piece.url, column=id_column)]
        metadata = parquet.metadata
        if metadata.num_row_groups < piece.stop:
            raise changed(piece, f"{metadata.num_row_groups} row groups, {piece.stop} were planned")
        first_row = sum(metadata.row_group(group).num_rows for group in range(piece.start))
        for group in range(piece.start, piece.stop):
            num_rows = metadata.row_group(group).num_rows
            chunks = [metadata.row_group(group).column(each) for each in (*ids, number)]
            place = _Place(
                group=group,
                column=column,
                id_column=id_column,
                max_document_bytes=max_document_bytes,
            )
            rows, problem = place.load(file, chunks, account=account, most=batch_documents)
            arrays = (
                _all_rows(place.arrays(parquet, batch_rows=rows), num_rows)
                if problem is None
                else iter([Rejected(problem)])
            )
            own = (first_row, first_row + num_rows)
            yield from place.batches(arrays, rows=own, chunk=chunks[-1])
            first_row += num_rows
        check_unchanged(piece, file.version(again=True))


_Arrays = tuple[pa.Array, pa.Array | None]
"""Texts, and their ids if these are read."""


def _all_rows(arrays: Iterator[_Arrays], num_rows: int) -> Iterator[_Arrays | Rejected]:
    """Give arrays until they have all rows of a row group, or, as the last, why they have not.

    Arrow skips a page whose header makes no sense to it, and ends early without an error.
    """
    left = num_rows
    while left:
        try:
            found = next(arrays, None)
        except (OSError, pa.ArrowException) as error:
            if not is_damage(error):
                raise
            yield Rejected(str(error))
            return
        if found is None or len(found[0]) > left:
            yield Rejected(f"the column chunk has other than {num_rows} rows")
            return
        left -= len(found[0])
        yield found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """One row group, from arrays to batches."""

    group: int
    column: str
    id_column: str | None
    max_document_bytes: int

    def load(
        self,
        file: ChunkFile,
        chunks: Sequence[pq.ColumnChunkMetaData],
        *,
        account: ReadAccount,
        most: int,
    ) -> tuple[int, str | None]:
        """Read the stored bytes of chunks; the last, the texts, is held until it is decoded.

        Gives how many rows a batch may have, and why the chunks must not be decoded.
        """
        rows, problem = _batch_rows(chunks[-1], most=most), None
        for chunk in chunks:
            headers = file.load(*chunk_range(chunk), account=account)
            rows = headers.batch_rows(most=rows)
            problem = problem or headers.problem(
                chunk.compression, max_document_bytes=self.max_document_bytes
            )
        return rows, problem

    def batches(
        self,
        arrays: Iterator[_Arrays | Rejected],
        *,
        rows: tuple[int, int],
        chunk: pq.ColumnChunkMetaData,
    ) -> Iterator[Batch]:
        """Give the rows of a row group, and a tail for those that cannot be read."""
        row, end = rows
        for found in arrays:
            if isinstance(found, Rejected):
                yield self._tail(found, row=row, end=end, num_bytes=chunk.total_compressed_size)
            else:
                yield self._batch(*found, first_row=row)
                row += len(found[0])

    def arrays(self, parquet: pq.ParquetFile, *, batch_rows: int) -> Iterator[_Arrays]:
        """Give the texts of the row group as plain string arrays, and their ids."""
        columns = [self.column] if self.id_column is None else [self.column, self.id_column]
        batches = parquet.iter_batches(
            batch_size=batch_rows, row_groups=[self.group], columns=columns, use_threads=False
        )
        for batch in batches:
            ids = None if self.id_column is None else id_texts(values_at(batch, self.id_column))
            yield plain_texts(values_at(batch, self.column)), ids

    def _batch(self, array: pa.Array, ids: pa.Array | None, *, first_row: int) -> Batch:
        rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
        bad: list[BadDocument] = []
        if array.null_count or self._has_too_large(array) or not is_utf8(array):
            good, bad = self._sort_out(array, ids, first_row=first_row)
            array, rows = array.take(pa.array(good)), rows[good]
            ids = None if ids is None else ids.take(pa.array(good))
        return Batch(
            documents=Documents.from_arrow(array),
            positions=rows,
            numbers=rows,
            group=self.group,
            bad=tuple(bad),
            document_ids=None if ids is None else Documents.from_arrow(ids),
        )

    def _has_too_large(self, array: pa.Array) -> bool:
        if array.nbytes <= self.max_document_bytes:  # all of them together
            return False
        longest = pc.max(pc.binary_length(array)).as_py()
        return longest is not None and int(longest) > self.max_document_bytes

    def _sort_out(
        self, array: pa.Array, ids: pa.Array | None, *, first_row: int
    ) -> tuple[NDArray[np.int64], list[BadDocument]]:
        """Give the places of good texts, and the bad ones; slow, for batches that have bad ones."""
        good: list[int] = []
        bad: list[BadDocument] = []
        for place, value in enumerate(array.cast(pa.large_binary())):
            document = self._checked(value)
            if document is None:
                good.append(place)
                continue
            reason, hash64, num_bytes = document
            row = first_row + place
            bad.append(
                BadDocument(
                    number=row,
                    position=row,
                    reason=reason,
                    hash64=hash64,
                    num_bytes=num_bytes,
                    id=None if ids is None else ids[place].as_py() or None,
                )
            )
        return np.array(good, dtype=np.int64), bad

    def _checked(self, value: pa.Scalar) -> tuple[str, int | None, int] | None:
        """Give reason, hash64 and bytes of a bad text, None of a good one."""
        if not value.is_valid:
            return f"field is null: {self.column!r}", None, 0
        raw = value.as_buffer()
        if raw.size > self.max_document_bytes:
            reason = too_large(f"{raw.size} bytes", limit=self.max_document_bytes)
            return reason, None, raw.size
        place = invalid_at(raw)
        return None if place is None else (invalid_utf8(place), hash64_of(raw), raw.size)

    def _tail(self, damage: Rejected, *, row: int, end: int, num_bytes: int) -> Batch:
        reason = f"{TAIL}: rows {row} to {end} cannot be read ({damage.reason})"
        bad = BadDocument(number=row, position=row, reason=reason, hash64=None, num_bytes=num_bytes)
        nothing = np.empty(0, dtype=np.int64)
        return Batch(
            documents=Documents.from_bytes([]),
            positions=nothing,
            numbers=nothing,
            group=self.group,
            bad=(bad,),
            document_ids=None if self.id_column is None else Documents.from_bytes([]),
        )


def _batch_rows(chunk: pq.ColumnChunkMetaData, *, most: int) -> int:
    """Give how many rows of average length a batch may hold."""
    average = chunk.total_uncompressed_size / max(1, chunk.num_values)
    return max(1, min(most, int(MAX_BATCH_BYTES / max(1.0, average))))
