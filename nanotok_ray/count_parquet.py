"""Parquet files of spans and counts, as Spark, SQL or any other tool writes them.

Takes a file and the names of its two columns; gives the columns part by part, so that a file of any
size is read in bounded memory. Does not look at the values.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.errors import SourceError
from nanotok_ray.sources.stored import is_damage
from nanotok_ray.storage import open_input

BATCH_ROWS = 1 << 18
"""Rows of a part; no part has rows of two row groups."""

Part = tuple[int, pa.Array, pa.Array]
"""Number of the first row in the file, spans, counts."""


def read_parquet(url: str, *, span_column: str, count_column: str) -> Iterator[Part]:
    """Give the spans and counts of a file, row group by row group.

    Raises:
        SourceError: it is no readable parquet file, or has not these two columns.
        TransientIOError: a remote store failed in a way that may pass.
    """
    row = 0
    with open_input(url) as file:
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
            _check_columns(parquet, span_column, count_column, url=url)
            for group in range(parquet.num_row_groups):
                for batch in parquet.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=[span_column, count_column]
                ):
                    yield row, batch[span_column], batch[count_column]
                    row += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            if not is_damage(error):
                raise
            raise SourceError(
                f"{url} is not a readable parquet file: {str(error).rstrip('.')}; "
                "write it anew, or leave it out of the paths"
            ) from error


def _check_columns(parquet: pq.ParquetFile, *wanted: str, url: str) -> None:
    names = parquet.schema_arrow.names
    for name, option in zip(wanted, ("--span-column", "--count-column"), strict=True):
        if names.count(name) != 1:
            raise SourceError(
                f"{url} has {names.count(name) or 'no'} column {name!r}; its columns are "
                f"{', '.join(map(repr, names)) or 'none'}; name the right one ({option})"
            )
