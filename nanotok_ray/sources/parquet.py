"""Pieces of parquet files: one string column of a run of row groups.

Takes a piece and the exact path of a column; gives batches. Does not know how row groups are
chosen or what the texts are for.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.documents import Documents
from nanotok_ray.sources.batch import MAX_BATCH_BYTES, BadDocument, Batch
from nanotok_ray.sources.chunk_file import ChunkFile
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.json_lines import Rejected, check_text
from nanotok_ray.sources.parquet_column import chunk_range, open_parquet
from nanotok_ray.sources.stored import ReadAccount, changed, is_damage


def read_row_groups(
    piece: Piece, *, column: str, batch_documents: int, account: ReadAccount
) -> Iterator[Batch]:
    """Give the texts of a run of row groups; no batch has rows of two of them.

    At damage the piece ends with one `tail`, and the account still is of all its chunks.

    Raises:
        SourceError: the file is not as it was when the plan was made.
    """
    with closing(ChunkFile(piece.url)) as file:
        parquet, number = open_parquet(file, url=piece.url, column=column)
        metadata = parquet.metadata
        if metadata.num_row_groups < piece.stop:
            raise changed(piece, f"{metadata.num_row_groups} row groups, {piece.stop} were planned")
        groups = [metadata.row_group(group) for group in range(piece.stop)]
        ends = np.cumsum([group.num_rows for group in groups], dtype=np.int64).tolist()
        is_broken = False
        for place in range(piece.start, piece.stop):
            chunk = groups[place].column(number)
            file.load(*chunk_range(chunk), account=account)
            if is_broken:
                continue
            row = ends[place] - groups[place].num_rows
            batch_rows = _batch_rows(chunk, most=batch_documents)
            arrays = _arrays(parquet, place, column=column, batch_rows=batch_rows)
            for array in _all_rows(arrays, num_rows=groups[place].num_rows):
                if isinstance(array, Rejected):
                    is_broken = True
                    lost = [group.column(number).total_compressed_size for group in groups[place:]]
                    yield _tail(array, row=row, end_row=ends[-1], group=place, num_bytes=sum(lost))
                else:
                    yield _batch(array, first_row=row, group=place, column=column)
                    row += len(array)


def _all_rows(arrays: Iterator[pa.Array], *, num_rows: int) -> Iterator[pa.Array | Rejected]:
    """Give arrays until they have all rows of a row group, or, as the last, why they have not.

    Arrow skips a page whose header makes no sense to it, and ends early without an error.
    """
    left = num_rows
    while left:
        try:
            array = next(arrays, None)
        except (OSError, pa.ArrowException) as error:
            if not is_damage(error):
                raise
            yield Rejected(str(error))
            return
        if array is None or len(array) > left:
            yield Rejected(f"the column chunk has other than {num_rows} rows")
            return
        left -= len(array)
        yield array


def _arrays(
    parquet: pq.ParquetFile, group: int, *, column: str, batch_rows: int
) -> Iterator[pa.Array]:
    """Give the column of one row group as plain string arrays."""
    batches = parquet.iter_batches(
        batch_size=batch_rows, row_groups=[group], columns=[column], use_threads=False
    )
    for batch in batches:
        array = batch.column(0)
        while pa.types.is_struct(array.type):  # only the one leaf was read
            array = array.flatten()[0]
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            array = array.cast(pa.large_string())
        yield array


def _batch(array: pa.Array, *, first_row: int, group: int, column: str) -> Batch:
    rows = np.arange(first_row, first_row + len(array), dtype=np.int64)
    bad: list[BadDocument] = []
    if array.null_count or not _is_utf8(array):
        good, bad = _sort_out(array, first_row=first_row, column=column)
        array, rows = array.take(pa.array(good)), rows[good]
    return Batch(
        documents=Documents.from_arrow(array),
        positions=rows,
        numbers=rows,
        group=group,
        bad=tuple(bad),
    )


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _sort_out(
    array: pa.Array, *, first_row: int, column: str
) -> tuple[NDArray[np.int64], list[BadDocument]]:
    """Give the places of good texts, and the bad ones; slow, for batches that have bad ones."""
    good: list[int] = []
    bad: list[BadDocument] = []
    for place, value in enumerate(array.cast(pa.large_binary())):
        raw: bytes | None = value.as_py()
        document = Rejected(f"field is null: {column!r}") if raw is None else check_text(raw)
        if not isinstance(document, Rejected):
            good.append(place)
            continue
        bad.append(
            BadDocument(
                number=first_row + place,
                position=first_row + place,
                reason=document.reason,
                hash64=None if raw is None else _core.hash64(raw),
                num_bytes=0 if raw is None else len(raw),
            )
        )
    return np.array(good, dtype=np.int64), bad


def _tail(damage: Rejected, *, row: int, end_row: int, group: int, num_bytes: int) -> Batch:
    reason = f"tail: rows {row} to {end_row} cannot be read ({damage.reason})"
    bad = BadDocument(number=row, position=row, reason=reason, hash64=None, num_bytes=num_bytes)
    nothing = np.empty(0, dtype=np.int64)
    return Batch(
        documents=Documents.from_bytes([]),
        positions=nothing,
        numbers=nothing,
        group=group,
        bad=(bad,),
    )


def _batch_rows(chunk: pq.ColumnChunkMetaData, *, most: int) -> int:
    """Give how many rows of average length a batch may hold."""
    average = chunk.total_uncompressed_size / max(1, chunk.num_values)
    return max(1, min(most, int(MAX_BATCH_BYTES / max(1.0, average))))
