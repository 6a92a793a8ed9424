"""The first rows of a parquet file, of which no more than the first pages are read.

Takes a URL and what is to be read of it; gives a batch. Does not know what the rows are for.
"""

from collections.abc import Callable
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.sources.batch import Batch
from nanotok_ray.sources.chunk_file import ChunkFile
from nanotok_ray.sources.parquet import GroupRows
from nanotok_ray.sources.parquet_column import Selection, chunk_range, open_parquet
from nanotok_ray.sources.parquet_pages import PageHeaders
from nanotok_ray.sources.stored import is_damage

_START_BYTES = 1 << 18
"""As much of each column chunk is looked at before its first rows are decoded."""
_MAX_PAGE_BYTES = 64 << 20
"""Larger pages are not decoded for a look at the first rows."""


def first_rows(
    url: str,
    *,
    select: Callable[[pq.ParquetFile], Selection],
    group: int,
    most: int,
    max_document_bytes: int,
) -> Batch | None:
    """Return the first `most` rows of a row group.

    None: there is none, or its first pages are damaged or too large to be looked at.
    """
    with closing(ChunkFile(url, block_bytes=_START_BYTES)) as file:
        parquet = open_parquet(file, url=url)
        rows = GroupRows(
            group=group,
            selection=select(parquet),
            metadata=parquet.metadata,
            max_document_bytes=max_document_bytes,
        )
        if not _starts_well(rows, file):
            return None
        try:
            found = next(rows.arrays(parquet, batch_rows=most), None)
        except (OSError, pa.ArrowException) as error:
            if not is_damage(error):
                raise
            return None
        before = (parquet.metadata.row_group(each).num_rows for each in range(group))
        return None if found is None else next(rows.batches(iter([found]), first_row=sum(before)))


def _starts_well(rows: GroupRows, file: ChunkFile) -> bool:
    """Tell whether the first pages of the chunks can be decoded, and are small."""
    for number in rows.selection.chunks:
        chunk = rows.metadata.row_group(rows.group).column(number)
        start, length = chunk_range(chunk)
        headers = PageHeaders()
        file.seek(start)
        headers.update(file.read(min(length, _START_BYTES)))
        limit = rows.max_document_bytes
        if headers.problem(chunk.compression, max_document_bytes=limit) is not None:
            return False
        if any(page.num_bytes > _MAX_PAGE_BYTES for page in headers.pages):
            return False
    return True
