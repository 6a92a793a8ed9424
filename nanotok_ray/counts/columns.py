"""Checks and sorts spans and counts of another tool for a count file."""

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nanotok_ray import _core
from nanotok_ray.counts.count_file import Run
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.errors import CountsError, SourceError
from nanotok_ray.sources import is_damage
from nanotok_ray.storage import open_input

MAX_COUNT = 2**64 - 1

Column: TypeAlias = pa.Array | pa.ChunkedArray
Hasher: TypeAlias = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], npt.NDArray[np.uint64]]

_LIMITS = f"a count is a whole number from 1 to 2**64 - 1 ({MAX_COUNT})"


def columns_of(pairs: Iterable[tuple[Any, Any]]) -> tuple[pa.Array, pa.Array]:
    """Return pairs of a span (str or bytes) and a count as two columns.

    >>> spans, counts = columns_of([("a", 1), (b"b", 2)])
    >>> spans.to_pylist(), counts.to_pylist()
    ([b'a', b'b'], [1, 2])

    Raises:
        CountsError: A span or a count has another type; the message names its row and the value.
    """
    spans, counts = [], []
    for row, (span, count) in enumerate(pairs):
        if not isinstance(span, str | bytes):
            raise CountsError(f"row {row}: the span is {span!r}, which is neither str nor bytes")
        spans.append(span if isinstance(span, bytes) else to_utf8(span))
        counts.append(_count(count, row=row, span=span))
    return pa.array(spans, pa.large_binary()), pa.array(counts, pa.uint64())


def checked_run(
    spans: Column,
    counts: Column,
    *,
    name: str,
    first_row: int,
    hash_documents: Hasher = _core.hash_documents,
) -> tuple[Run, int]:
    """Return two columns as one sorted run, and the bytes of the texts of these spans.

    Counts of the same span are added.

    Args:
        spans: strings or bytes of any Arrow type, or a dictionary of these, of shape (n,).
        counts: any integer type, of shape (n,).
        name: the name of the columns in messages.
        first_row: the number of the first row in messages.
        hash_documents: returns the hash64 of each span, given spans back to back and their
            positions.

    Raises:
        CountsError: A span or a count is invalid; the message names its row and the value.
        CountOverflowError: A sum would exceed 2**64 - 1.
    """
    if len(spans) != len(counts):
        raise CountsError(f"{name}: there are {len(spans)} spans and {len(counts)} counts")
    texts = _spans(spans, name=name, first_row=first_row)
    numbers = _counts(counts, texts, name=name, first_row=first_row)
    documents = Documents.from_arrow(texts)
    text_bytes = sum(map(operator.mul, np.diff(documents.offsets).tolist(), numbers.tolist()))
    hashes = hash_documents(documents.data, documents.offsets)
    order = _order(hashes, texts)
    ordered = Documents.from_arrow(texts.take(pa.array(order)))
    run = (hashes[order], ordered.data, ordered.offsets, numbers[order])
    return _core.merge_runs([run]), text_bytes


def _count(count: Any, *, row: int, span: str | bytes) -> int:  # noqa: ANN401 - it is checked here
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    if isinstance(count, bool) or not 1 <= number <= MAX_COUNT:
        raise CountsError(f"row {row}: the count of {span!r} is {count!r}: {_LIMITS}")
    return number


def _spans(column: Column, *, name: str, first_row: int) -> pa.LargeBinaryArray:
    kind = column.type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not _is_text(value):
        raise CountsError(
            f"{name}: the spans are of type {kind}: they must be strings or bytes, or a dictionary "
            "of these"
        )
    plain = column.cast(value) if value is not kind else column
    array = _one_chunk(plain.cast(pa.large_binary()))
    missing = _first(np.asarray(array.is_null()))
    if missing is not None:
        raise CountsError(f"{name}, row {first_row + missing}: the span is null; remove the row")
    empty = _first(np.diff(Documents.from_arrow(array).offsets) == 0)
    if empty is not None:
        raise CountsError(
            f"{name}, row {first_row + empty}: the span is empty, which no pattern produces; "
            "remove the row"
        )
    return array


def _counts(
    column: Column, spans: pa.LargeBinaryArray, *, name: str, first_row: int
) -> npt.NDArray[np.uint64]:
    if not pa.types.is_integer(column.type):
        raise CountsError(
            f"{name}: the counts are of type {column.type}, which may have rounded them: cast them "
            "to a 64-bit integer where they are made (bigint in SQL and Spark)"
        )
    array = _one_chunk(column)
    low = _first(np.asarray(pc.fill_null(pc.less(array, pa.scalar(1, array.type)), True)))
    if low is not None:
        raise CountsError(
            f"{name}, row {first_row + low}: the count of {spans[low].as_py()!r} is "
            f"{array[low].as_py()}: {_LIMITS}; remove rows with other counts"
        )
    return np.asarray(array.cast(pa.uint64()))


def _order(
    hashes: npt.NDArray[np.uint64], spans: pa.LargeBinaryArray
) -> npt.NDArray[np.signedinteger[Any]]:
    """Return the order by (hash64, span); spans are compared only if their hashes are equal."""
    order = np.argsort(hashes)
    ordered = hashes[order]
    if not (ordered[1:] == ordered[:-1]).any():
        return order
    table = pa.table({"hash64": hashes, "span": spans})
    keys = [("hash64", "ascending"), ("span", "ascending")]
    return np.asarray(pc.sort_indices(table, sort_keys=keys).cast(pa.int64()))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    checks = (
        *(types.is_string, types.is_large_string, types.is_string_view),
        *(types.is_binary, types.is_large_binary, types.is_binary_view),
    )
    return any(check(kind) for check in checks)


def _one_chunk(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _first(flags: npt.NDArray[np.bool_]) -> int | None:
    """Return the index of the first True, or None."""
    index = int(np.argmax(flags)) if len(flags) else 0
    return index if len(flags) and flags[index] else None


BATCH_ROWS = 1 << 18
"""Rows of a part; a part never spans two row groups."""

Part = tuple[int, pa.Array, pa.Array]
"""Number of the first row in the file, spans, counts."""


def read_parquet(url: str, *, span_column: str, count_column: str) -> Iterator[Part]:
    """Yield the spans and counts of a file, row group by row group.

    Raises:
        SourceError: The file is not a readable parquet file, or lacks a column.
        TransientIOError: A remote store failed in a way that a retry can solve.
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
                f"{url} is not a readable parquet file: {str(error).rstrip('.')}; write it again, "
                "or remove it from the paths"
            ) from error


def _check_columns(parquet: pq.ParquetFile, *wanted: str, url: str) -> None:
    names = parquet.schema_arrow.names
    for name, option in zip(wanted, ("--span-column", "--count-column"), strict=True):
        if names.count(name) != 1:
            raise SourceError(
                f"{url} has {names.count(name) or 'no'} column {name!r}; its columns are "
                f"{', '.join(map(repr, names)) or 'none'}; name the right one ({option})"
            )
