"""Documents of parquet files: ranges of row groups, and the first rows of a file."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.documents import Documents
from nanotok_ray.sources.batch import MAX_BATCH_BYTES, BadDocument, Batch
from nanotok_ray.sources.checked import checked_batch
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.parquet_column import (
    Selection,
    chunk_range,
    id_texts,
    open_parquet,
    values_at,
)
from nanotok_ray.sources.parquet_pages import ChunkFile
from nanotok_ray.sources.parquet_rows import selection_of
from nanotok_ray.sources.quarantine import TAIL
from nanotok_ray.sources.start import MAX_ROWS
from nanotok_ray.sources.stored import (
    ReadAccount,
    changed,
    check_unchanged,
    expansion_problem,
    is_damage,
)


def read_row_groups(piece: Piece, rules: DocumentRules, account: ReadAccount) -> Iterator[Batch]:
    """Yield the documents of a range of row groups; a batch never has rows of two row groups.

    At damage, a row group ends with a `tail`, and the next row group is read. The account includes
    all chunks.

    Raises:
        SourceError: The file has changed since the plan was made.
    """
    with closing(ChunkFile(piece.file.url)) as file:
        check_unchanged(piece.file, file.version())
        parquet = open_parquet(file, url=piece.file.url)
        selection = selection_of(parquet, piece.file, rules)
        check_unchanged(piece.file, file.version(), footer_sha256=file.footer_sha256())
        metadata = parquet.metadata
        if metadata.num_row_groups < piece.stop:
            raise changed(
                piece.file, f"{metadata.num_row_groups} row groups, {piece.stop} were planned"
            )
        first_row = sum(metadata.row_group(group).num_rows for group in range(piece.start))
        expansion = _Expansion(account)
        for number in range(piece.start, piece.stop):
            group = _RowGroup(number, first_row, selection, metadata, rules.max_document_bytes)
            max_rows, problem = group.load(file, account, max_rows=rules.batch_documents)
            if problem is None:
                yield from group.batches(parquet, max_rows=max_rows, expansion=expansion)
            else:
                yield group.tail(problem, row=first_row)
            first_row += group.num_rows
        check_unchanged(piece.file, file.version(again=True))


_START_BYTES = 1 << 18
"""Bytes of each column chunk that are checked before its first rows are decoded."""


def first_rows(
    url: str, select: Callable[[pq.ParquetFile], Selection], *, max_document_bytes: int
) -> Batch | None:
    """Return the first rows of a file, at most `MAX_ROWS`, or fewer if they are large.

    Return None if there are no rows, or if the first pages are damaged or too large.
    """
    account = ReadAccount()
    with closing(ChunkFile(url, block_bytes=_START_BYTES)) as file:
        parquet = open_parquet(file, url=url)
        metadata = parquet.metadata
        numbers = range(metadata.num_row_groups)
        filled = (number for number in numbers if metadata.row_group(number).num_rows)
        if (number := next(filled, None)) is None:
            return None
        group = _RowGroup(number, 0, select(parquet), metadata, max_document_bytes)
        max_rows, problem = group.load(file, account, max_rows=MAX_ROWS, is_start=True)
        if problem is not None:
            return None
        batch = next(group.batches(parquet, max_rows=max_rows, expansion=_Expansion(account)))
        return None if any(bad.rows for bad in batch.bad) else batch


@dataclass(slots=True)
class _Expansion:
    """The decoded bytes of the row groups of a piece, which are compared with the stored ones."""

    account: ReadAccount
    decoded: int = 0

    def problem(self, num_bytes: int) -> str | None:
        """Add decoded bytes, and return the reason why no more is decoded, or None."""
        self.account.check_time()
        self.decoded += num_bytes
        return expansion_problem(self.decoded, self.account.num_bytes)


class _ReadRows(NamedTuple):
    """Rows that Arrow decoded."""

    texts: pa.Array
    """Their documents."""
    ids: pa.Array | None
    columns: pa.RecordBatch | None
    """The columns that a function gets besides."""


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Conversion of one row group from arrays to batches."""

    number: int
    first_row: int
    selection: Selection
    metadata: pq.FileMetaData
    max_document_bytes: int

    @property
    def num_rows(self) -> int:
        """Rows of the row group."""
        return int(self.metadata.row_group(self.number).num_rows)

    def load(
        self, file: ChunkFile, account: ReadAccount, *, max_rows: int, is_start: bool = False
    ) -> tuple[int, str | None]:
        """Read the stored bytes of the chunks, ids first, and keep those that fit the window.

        With `is_start`, only the first bytes of each chunk are read, and pages are limited to a
        fixed size. Return the number of rows of a batch, and the reason why the chunks must not be
        decoded.
        """
        row_group, problem = self.metadata.row_group(self.number), None
        rows = max_rows if is_start else self._average_rows(max_rows)
        numbers = (*self.selection.id_chunks, *self.selection.chunks)
        ranges = [chunk_range(row_group.column(number)) for number in numbers]
        if is_start:
            ranges = [(start, min(length, _START_BYTES)) for start, length in ranges]
        file.release(sum(length for _, length in ranges))
        for number, (start, length) in zip(numbers, ranges, strict=True):
            chunk = row_group.column(number)
            headers = file.load(start, length, account=account)
            in_lists = self.metadata.schema.column(number).max_repetition_level > 0
            rows = headers.batch_rows(max_rows=rows, in_lists=self.num_rows if in_lists else None)
            limit = 0 if is_start else self.max_document_bytes
            problem = problem or headers.problem(chunk.compression, max_document_bytes=limit)
            is_complete = is_start or not self.selection.is_mixed_by_gaps
            if not is_complete and headers.num_values != chunk.num_values:
                values = f"{headers.num_values} of {chunk.num_values}"
                problem = problem or f"the pages of a column hold {values} values"
        return rows, problem

    def _average_rows(self, max_rows: int) -> int:
        """Return the number of rows of average length in a batch."""
        total = self.selection.num_bytes(self.metadata.row_group(self.number))
        average = total / max(1, self.num_rows)
        return max(1, min(max_rows, int(MAX_BATCH_BYTES / max(1.0, average))))

    def batches(
        self, parquet: pq.ParquetFile, *, max_rows: int, expansion: _Expansion
    ) -> Iterator[Batch]:
        """Yield the rows of the row group, and a tail for rows that cannot be read.

        Arrow skips a page with an invalid header, and then ends early without an error.
        """
        row, end = self.first_row, self.first_row + self.num_rows
        arrays = self._arrays(parquet, max_rows=max_rows)
        while row < end:
            try:
                documents = next(arrays, None)
            except (OSError, pa.ArrowException) as error:
                if not is_damage(error):
                    raise
                yield self.tail(str(error), row=row)
                return
            if documents is None or len(documents.texts) > end - row:
                yield self.tail(f"the column chunk has other than {self.num_rows} rows", row=row)
                return
            problem = expansion.problem(documents.texts.nbytes)
            if problem is not None:
                yield self.tail(problem, row=row)
                return
            yield self._batch(documents, first_row=row)
            row += len(documents.texts)

    def _arrays(self, parquet: pq.ParquetFile, *, max_rows: int) -> Iterator["_ReadRows"]:
        """Yield the documents of the row group as string arrays, their ids and other columns."""
        id_column, others = self.selection.id_column, self.selection.others
        ids = () if id_column is None else (id_column,)
        batches = parquet.iter_batches(
            batch_size=max_rows,
            row_groups=[self.number],
            columns=list(dict.fromkeys((*self.selection.columns, *ids, *others))),
            use_threads=False,
        )
        for batch in batches:
            columns = {name: values_at(batch, name) for name in others}
            yield _ReadRows(
                self.selection.documents(batch),
                None if id_column is None else id_texts(values_at(batch, id_column)),
                pa.RecordBatch.from_pydict(columns) if columns else None,
            )

    def _batch(self, read: "_ReadRows", *, first_row: int) -> Batch:
        rows = np.arange(first_row, first_row + len(read.texts), dtype=np.int64)
        return checked_batch(
            read.texts,
            Batch(
                documents=Documents.from_bytes([]),
                positions=rows,
                numbers=rows,
                group=self.number,
                document_ids=None if read.ids is None else Documents.from_arrow(read.ids),
                columns=read.columns,
            ),
            max_document_bytes=self.max_document_bytes,
            is_json=self.selection.is_json,
            column=next(iter(self.selection.columns), ""),
        )

    def tail(self, problem: str, *, row: int) -> Batch:
        """Return a batch without documents for the rows from a row on."""
        end = self.first_row + self.num_rows
        row_group = self.metadata.row_group(self.number)
        num_bytes = sum(
            row_group.column(number).total_compressed_size for number in self.selection.chunks
        )
        reason = f"{TAIL}: rows {row} to {end} cannot be read ({problem})"
        bad = BadDocument(
            number=row,
            position=row,
            reason=reason,
            hash64=None,
            num_bytes=num_bytes,
            rows=end - row,
        )
        nothing = np.empty(0, dtype=np.int64)
        return Batch(
            documents=Documents.from_bytes([]),
            positions=nothing,
            numbers=nothing,
            group=self.number,
            bad=(bad,),
            document_ids=None if self.selection.id_column is None else Documents.from_bytes([]),
        )
