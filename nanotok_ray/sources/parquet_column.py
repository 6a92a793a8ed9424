"""The footer of a parquet file, and the string column that is read."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nanotok_ray.dialects import METADATA, detect_columns, is_metadata
from nanotok_ray.errors import SourceError
from nanotok_ray.sources.checked import is_utf8
from nanotok_ray.sources.columns import PREFERENCES, is_preference
from nanotok_ray.sources.parquet_pages import ChunkFile
from nanotok_ray.sources.stored import is_damage


def plain_texts(array: pa.Array) -> pa.Array:
    """Return texts as an array of strings with nulls; the bytes need not be valid UTF-8."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    return array.cast(pa.large_string())


def id_texts(array: pa.Array) -> pa.Array:
    """Return ids as text, empty for a missing id; invalid UTF-8 becomes U+FFFD."""
    texts = pc.fill_null(plain_texts(array), "")
    if is_utf8(texts):
        return texts
    raw = texts.cast(pa.large_binary()).to_pylist()
    return pa.array([value.decode(errors="replace") for value in raw], pa.large_string())


MAX_ROWS_PER_BYTE = 64
MIN_LIMITED_ROWS = 1 << 24
"""A file of more rows than these, and of more than `MAX_ROWS_PER_BYTE` rows for each stored byte,
is refused. Only a file in which all columns are constant has so many.
"""

_PAGE_BUFFER_BYTES = 1 << 20
_MAX_GROUPS = 16
"""Row groups whose sizes are looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """The columns that are read of each row group, and their conversion to documents."""

    columns: tuple[str, ...]
    """The columns that Arrow reads, without the ids."""
    chunks: tuple[int, ...]
    """The numbers of these columns in the footer."""
    documents: Callable[[pa.RecordBatch], pa.Array]
    """Returns the documents of a batch as an array of strings."""
    id_column: str | None = None
    id_chunks: tuple[int, ...] = ()
    """The number of the column of ids, if any."""
    others: tuple[str, ...] = ()
    """The columns that the function of the source gets besides; `chunks` has their numbers too."""
    is_json: bool = False
    """Whether documents are JSON of the values of several columns."""

    @property
    def is_mixed_by_gaps(self) -> bool:
        """Whether a skipped page of one column would mix up the rows of several."""
        return self.is_json or bool(self.others)

    def num_bytes(self, group: pq.RowGroupMetaData) -> int:
        """Return the uncompressed bytes of the columns in a row group, without the ids."""
        return sum(group.column(number).total_uncompressed_size for number in self.chunks)


def open_parquet(file: ChunkFile, *, url: str) -> pq.ParquetFile:
    """Return the opened file.

    Raises:
        SourceError: The file is not a parquet file, or has too many rows for its size.
    """
    try:
        parquet = pq.ParquetFile(
            file,
            buffer_size=_PAGE_BUFFER_BYTES,  # read pages as they are needed, instead of
            pre_buffer=False,  # the whole chunk at once
            page_checksum_verification=True,
        )
        _ = parquet.schema_arrow
    except (OSError, pa.ArrowException) as error:
        if not is_damage(error):
            raise
        raise SourceError(
            f"{url} is not a readable parquet file: {str(error).rstrip('.')}; write it again, or "
            "remove it from the paths"
        ) from error
    rows = parquet.metadata.num_rows
    if rows > max(MIN_LIMITED_ROWS, MAX_ROWS_PER_BYTE * file.size):
        raise SourceError(
            f"{url} has {rows:,} rows in {file.size:,} bytes, more than {MAX_ROWS_PER_BYTE} rows a "
            "byte, so that it contains hardly any text; remove it from the paths"
        )
    return parquet


def text_selection(parquet: pq.ParquetFile, *, url: str, column: str) -> Selection:
    """Return the selection of a string column.

    Raises:
        SourceError: The file lacks a string column of this path.
    """
    return Selection(
        columns=(column,),
        chunks=(column_number(parquet, url=url, column=column, key="column"),),
        documents=lambda batch: plain_texts(values_at(batch, column)),
    )


def column_number(parquet: pq.ParquetFile, *, url: str, column: str, key: str) -> int:
    """Return the number of the column of texts, or of ids, which can also be integers.

    Args:
        parquet: the opened file.
        url: its path or URL, for messages.
        column: the path of the column.
        key: the key of the recipe that names it: `column` or `id_column`.

    Raises:
        SourceError: The column does not exist or has another type.
    """
    number, kind = _find_column(parquet, column=column, key=key, url=url)
    is_id = key == "id_column"
    if kind is not None and (is_text(kind) or (is_id and pa.types.is_integer(kind))):
        return number
    what = "inside a list" if kind is None else f"of type {kind}"
    advice = (
        "neither a string nor an integer; name another as id_column, or remove the key"
        if is_id
        else "not a string; name a string column, or rewrite the file with it cast to string"
    )
    raise SourceError(f"{url}: column {column!r} is {what}, {advice}")


def values_at(batch: pa.RecordBatch, column: str) -> pa.Array:
    """Return the values of a column by its path; nulls of structs are nulls."""
    if column in batch.schema.names:
        return batch.column(column)
    first, *rest = column.split(".")
    array = batch.column(first)
    for name in rest:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def chunk_range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return position and size of the stored bytes of a column chunk; 0, 0 for an empty one."""
    # Some writers store 0 for a missing page; byte 0 belongs to the file's magic.
    pages = [offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset]
    return (min(pages), chunk.total_compressed_size) if pages else (0, 0)


def paths_of(metadata: pq.FileMetaData) -> list[str]:
    """Return the path of each column of a footer."""
    return [metadata.schema.column(number).path for number in range(metadata.num_columns)]


def numbers_of(metadata: pq.FileMetaData, name: str) -> list[int]:
    """Return the numbers of the columns of a footer that belong to one top-level column."""
    paths = enumerate(paths_of(metadata))
    return [number for number, path in paths if path == name or path.startswith(f"{name}.")]


def _find_column(
    parquet: pq.ParquetFile, *, column: str, key: str, url: str
) -> tuple[int, pa.DataType | None]:
    """Return number and type of a column; no type if it is inside a list."""
    metadata, schema = parquet.metadata, parquet.schema_arrow
    paths = paths_of(metadata)
    if paths.count(column) != 1:
        is_text = key == "column"
        if is_text and is_preference(schema.names):
            raise SourceError(f"{url}: {PREFERENCES}")
        is_chat = is_text and detect_columns(schema.names, kind="chat") is not None
        hint = ', or kind = "chat" for conversations' if is_chat else ""
        raise SourceError(
            f"{url} has {paths.count(column) or 'no'} column {column!r}; its columns are "
            f"{', '.join(map(repr, paths)) or 'none'}; set {key} in the recipe to one of them{hint}"
        )
    number = paths.index(column)
    is_list = metadata.schema.column(number).max_repetition_level
    return number, None if is_list else _type_at(schema, column)


def _type_at(schema: pa.Schema, column: str) -> pa.DataType | None:
    if column in schema.names:
        return schema.field(column).type
    first, *rest = column.split(".")
    kind = schema.field(first).type if first in schema.names else None
    for name in rest:
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are strings, or all null, for which writers use a separate type."""
    return is_string(kind) or bool(pa.types.is_null(kind))


def is_string(kind: pa.DataType) -> bool:
    """Return whether values are strings, also those of a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    types = pa.types
    return any(
        check(kind) for check in (types.is_string, types.is_large_string, types.is_string_view)
    )


def unread_columns(
    parquet: pq.ParquetFile,
    *,
    used: Collection[str | None],
    metadata: Sequence[str] = METADATA,
    min_bytes: int = 1,
) -> tuple[str, ...]:
    """Return the columns besides `used` and metadata that hold strings, by their types and sizes.

    They have a mean of at least `min_bytes` bytes a row, uncompressed, in the first row groups.
    """
    names = [
        field.name
        for field in parquet.schema_arrow
        if field.name not in used
        and not is_metadata(field.name, metadata)
        and _has_strings(field.type)
    ]
    groups = range(min(parquet.metadata.num_row_groups, _MAX_GROUPS))
    rows = sum(parquet.metadata.row_group(group).num_rows for group in groups)
    return tuple(
        name
        for name in names
        if _num_bytes(parquet.metadata, groups, name) >= max(min_bytes * rows, 1)
    )


def _has_strings(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_strings(field.type) for field in kind)
    inner = getattr(kind, "value_type", None)  # of a list or a dictionary
    return is_string(kind) if inner is None else _has_strings(inner)


def _num_bytes(metadata: pq.FileMetaData, groups: Iterable[int], name: str) -> int:
    """Return the bytes of a column in row groups, without chunks that have only nulls."""
    numbers = numbers_of(metadata, name)
    chunks = [metadata.row_group(group).column(number) for group in groups for number in numbers]
    return sum(chunk.total_uncompressed_size for chunk in chunks if not _is_null(chunk))


def _is_null(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    return (
        statistics is not None
        and statistics.has_null_count
        and statistics.null_count == chunk.num_values
    )
