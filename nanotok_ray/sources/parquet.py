"""Documents of parquet files: ranges of row groups, and the first rows of a file."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nanotok_ray.documents import Documents
from nanotok_ray.sources.batch import MAX_BATCH_BYTES, BadDocument, Batch, hash64_of
from nanotok_ray.sources.files import DocumentRules, Piece
from nanotok_ray.sources.json_lines import (
    MAX_VALUES,
    Rejected,
    invalid_utf8,
    too_large,
    too_many_values,
)
from nanotok_ray.sources.parquet_column import (
    Selection,
    chunk_range,
    id_texts,
    is_utf8,
    open_parquet,
    values_at,
)
from nanotok_ray.sources.parquet_pages import ChunkFile, PageHeaders
from nanotok_ray.sources.parquet_rows import selection_of
from nanotok_ray.sources.quarantine import TAIL
from nanotok_ray.sources.start import MAX_ROWS
from nanotok_ray.sources.stored import (
    ReadAccount,
    changed,
    check_unchanged,
    expansion_problem,
    invalid_at,
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
        for group in range(piece.start, piece.stop):
            row_group = GroupRows(
                group=group,
                selection=selection,
                metadata=metadata,
                max_document_bytes=rules.max_document_bytes,
            )
            rows, problem = row_group.load(file, account=account, max_rows=rules.batch_documents)
            arrays = (
                expansion.limited(
                    _all_rows(row_group.arrays(parquet, batch_rows=rows), row_group.num_rows)
                )
                if problem is None
                else iter([Rejected(problem)])
            )
            yield from row_group.batches(arrays, first_row=first_row)
            first_row += row_group.num_rows
        check_unchanged(piece.file, file.version(again=True))


_Arrays = tuple[pa.Array, pa.Array | None]
"""Texts, and their ids if they are read."""


@dataclass(slots=True)
class _Expansion:
    """The decoded bytes of the row groups of a piece, which are compared with the stored ones."""

    account: ReadAccount
    decoded: int = 0

    def limited(self, arrays: "Iterator[_Arrays | Rejected]") -> "Iterator[_Arrays | Rejected]":
        """Yield arrays up to the time of the account, and a reason in place of too large ones."""
        for found in arrays:
            self.account.check_time()
            if not isinstance(found, Rejected):
                self.decoded += found[0].nbytes
                problem = expansion_problem(self.decoded, self.account.num_bytes)
                if problem is not None:
                    yield Rejected(problem)
                    return
            yield found


def _all_rows(arrays: Iterator[_Arrays], num_rows: int) -> Iterator[_Arrays | Rejected]:
    """Yield arrays up to the number of rows of a row group, or finally the reason for missing rows.

    Arrow skips a page with an invalid header, and then ends early without an error.
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
class GroupRows:
    """Conversion of one row group from arrays to batches."""

    group: int
    selection: Selection
    metadata: pq.FileMetaData
    max_document_bytes: int

    @property
    def num_rows(self) -> int:
        """Rows of the row group."""
        return int(self.metadata.row_group(self.group).num_rows)

    def load(
        self, file: ChunkFile, *, account: ReadAccount, max_rows: int
    ) -> tuple[int, str | None]:
        """Read the stored bytes of the chunks, ids first, and keep those that fit the cache.

        Return the number of rows of a batch, and the reason why the chunks must not be decoded.
        """
        row_group = self.metadata.row_group(self.group)
        rows, problem = self._batch_rows(max_rows=max_rows), None
        file.release()
        for number in (*self.selection.id_chunks, *self.selection.chunks):
            chunk = row_group.column(number)
            headers = file.load(*chunk_range(chunk), account=account)
            rows = self.batch_rows(headers, number, max_rows=rows)
            problem = problem or self._problem(headers, chunk)
        return rows, problem

    def batch_rows(self, headers: PageHeaders, number: int, *, max_rows: int) -> int:
        """Return the number of rows to decode at a time of the column with this number."""
        is_in_lists = self.metadata.schema.column(number).max_repetition_level > 0
        return headers.batch_rows(
            max_rows=max_rows, in_lists=self.num_rows if is_in_lists else None
        )

    def _problem(self, headers: PageHeaders, chunk: pq.ColumnChunkMetaData) -> str | None:
        found = headers.problem(chunk.compression, max_document_bytes=self.max_document_bytes)
        if found is None and self.selection.is_json and headers.num_values != chunk.num_values:
            return f"the pages of a column hold {headers.num_values} of {chunk.num_values} values"
        return found

    def _batch_rows(self, *, max_rows: int) -> int:
        """Return the number of rows of average length in a batch."""
        row_group = self.metadata.row_group(self.group)
        total = sum(
            row_group.column(number).total_uncompressed_size for number in self.selection.chunks
        )
        average = total / max(1, self.num_rows)
        return max(1, min(max_rows, int(MAX_BATCH_BYTES / max(1.0, average))))

    def batches(self, arrays: Iterator[_Arrays | Rejected], *, first_row: int) -> Iterator[Batch]:
        """Yield the rows of a row group, and a tail for rows that cannot be read."""
        row, end = first_row, first_row + self.num_rows
        for found in arrays:
            if isinstance(found, Rejected):
                yield self._tail(found, row=row, end=end)
            else:
                yield self._batch(*found, first_row=row)
                row += len(found[0])

    def arrays(self, parquet: pq.ParquetFile, *, batch_rows: int) -> Iterator[_Arrays]:
        """Yield the documents of the row group as string arrays, and their ids."""
        id_column = self.selection.id_column
        ids = () if id_column is None else (id_column,)
        batches = parquet.iter_batches(
            batch_size=batch_rows,
            row_groups=[self.group],
            columns=list(dict.fromkeys((*self.selection.columns, *ids))),
            use_threads=False,
        )
        for batch in batches:
            batch_ids = None if id_column is None else id_texts(values_at(batch, id_column))
            yield self.selection.documents(batch), batch_ids

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
        """Return whether a document is above the limit, or is so long that values are counted."""
        limit = self.max_document_bytes
        if self.selection.is_json:
            limit = min(limit, MAX_VALUES)
        if array.nbytes <= limit:  # all documents together
            return False
        longest = pc.max(pc.binary_length(array)).as_py()
        return longest is not None and int(longest) > limit

    def _sort_out(
        self, array: pa.Array, ids: pa.Array | None, *, first_row: int
    ) -> tuple[NDArray[np.int64], list[BadDocument]]:
        """Return the positions of valid texts, and the bad texts; slow, only for bad batches."""
        good: list[int] = []
        bad: list[BadDocument] = []
        for index, value in enumerate(array.cast(pa.large_binary())):
            document = self._checked(value)
            if document is None:
                good.append(index)
                continue
            reason, hash64, num_bytes = document
            row = first_row + index
            bad.append(
                BadDocument(
                    number=row,
                    position=row,
                    reason=reason,
                    hash64=hash64,
                    num_bytes=num_bytes,
                    id=None if ids is None else ids[index].as_py() or None,
                )
            )
        return np.array(good, dtype=np.int64), bad

    def _checked(self, value: pa.Scalar) -> tuple[str, int | None, int] | None:
        """Return reason, hash64 and size of a bad text, or None for a valid one."""
        if not value.is_valid:
            return f"field is null: {self.selection.columns[0]!r}", None, 0
        raw = value.as_buffer()
        if raw.size > self.max_document_bytes:
            reason = too_large(f"{raw.size} bytes", limit=self.max_document_bytes)
            return reason, None, raw.size
        if self.selection.is_json and (many := too_many_values(raw)):
            return many, hash64_of(raw), raw.size
        position = invalid_at(raw)
        return None if position is None else (invalid_utf8(position), hash64_of(raw), raw.size)

    def _tail(self, damage: Rejected, *, row: int, end: int) -> Batch:
        row_group = self.metadata.row_group(self.group)
        num_bytes = sum(
            row_group.column(number).total_compressed_size for number in self.selection.chunks
        )
        reason = f"{TAIL}: rows {row} to {end} cannot be read ({damage.reason})"
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
            group=self.group,
            bad=(bad,),
            document_ids=None if self.selection.id_column is None else Documents.from_bytes([]),
        )


_START_BYTES = 1 << 18
"""Bytes of each column chunk that are checked before its first rows are decoded."""
_MAX_PAGE_BYTES = 64 << 20
"""Larger pages are not decoded for the first rows."""


def first_rows(
    url: str, select: Callable[[pq.ParquetFile], Selection], *, max_document_bytes: int
) -> Batch | None:
    """Return the first rows of a file, at most `MAX_ROWS`, or fewer if they are large.

    Return None if there are no rows, or if the first pages are damaged or too large.
    """
    with closing(ChunkFile(url, block_bytes=_START_BYTES)) as file:
        parquet = open_parquet(file, url=url)
        metadata = parquet.metadata
        groups = range(metadata.num_row_groups)
        group = next((number for number in groups if metadata.row_group(number).num_rows), None)
        if group is None:
            return None
        rows = GroupRows(
            group=group,
            selection=select(parquet),
            metadata=metadata,
            max_document_bytes=max_document_bytes,
        )
        batch_rows = _first_batch_rows(rows, file)
        if batch_rows is None:
            return None
        try:
            found = next(rows.arrays(parquet, batch_rows=batch_rows), None)
        except (OSError, pa.ArrowException) as error:
            if not is_damage(error):
                raise
            return None
        return None if found is None else next(rows.batches(iter([found]), first_row=0))


def _first_batch_rows(rows: GroupRows, file: ChunkFile) -> int | None:
    """Return the number of rows whose documents are not too large together.

    Return None if the first pages of the chunks cannot be decoded or are large.
    """
    max_rows = MAX_ROWS
    for number in rows.selection.chunks:
        chunk = rows.metadata.row_group(rows.group).column(number)
        start, length = chunk_range(chunk)
        headers = PageHeaders()
        file.seek(start)
        headers.update(file.read(min(length, _START_BYTES)))
        limit = rows.max_document_bytes
        if headers.problem(chunk.compression, max_document_bytes=limit) is not None:
            return None
        if any(page.num_bytes > _MAX_PAGE_BYTES for page in headers.pages):
            return None
        max_rows = rows.batch_rows(headers, number, max_rows=max_rows)
    return max_rows
