"""Rows of parquet files as equivalent JSON lines."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from nanotok_ray.dialects import (
    METADATA,
    Dialect,
    columns_of,
    detect_columns,
    is_metadata,
    metadata_of,
)
from nanotok_ray.documents import offsets_of
from nanotok_ray.errors import SourceError
from nanotok_ray.formats import RowGroup, SourceFile
from nanotok_ray.sources.columns import MIN_TEXT_BYTES, PREFERENCES, is_preference
from nanotok_ray.sources.files import DocumentRules
from nanotok_ray.sources.parquet_column import (
    Selection,
    column_number,
    is_string,
    is_text,
    numbers_of,
    open_parquet,
    paths_of,
    text_selection,
    unread_columns,
)
from nanotok_ray.sources.parquet_pages import ChunkFile

_TEXT = pa.large_string()
_EMPTY = pa.scalar("", _TEXT)
_QUOTE, _BACKSLASH = b'"\\'
_LOWEST_PRINTABLE = 32
_ESCAPES = {_BACKSLASH: rb"\\", _QUOTE: rb"\""} | {
    byte: json.dumps(chr(byte))[1:-1].encode() for byte in range(_LOWEST_PRINTABLE)
}
"""The replacement of each byte that a JSON string must not contain. The backslash comes first,
since other replacements contain one.
"""
_EXTRA = np.zeros(256, dtype=np.int64)
_EXTRA[list(_ESCAPES)] = [len(escape) - 1 for escape in _ESCAPES.values()]

_Checks = Sequence[Callable[[pa.DataType], bool]]
_t = pa.types
_STRINGS: _Checks = (_t.is_string, _t.is_large_string, _t.is_string_view)
_LISTS: _Checks = (
    _t.is_list,
    _t.is_large_list,
    _t.is_fixed_size_list,
    _t.is_list_view,
    _t.is_large_list_view,
)
_PLAIN: _Checks = (_t.is_integer, _t.is_boolean, _t.is_null)
_AS_STRINGS: _Checks = (_t.is_timestamp, _t.is_date, _t.is_time, _t.is_decimal)


def json_of(array: pa.Array) -> pa.Array:
    r"""Return the JSON of each value as a large_string, null for a null.

    Floats that are not numbers become null; dates, times and decimals become strings.

    >>> json_of(pa.array([{"a": [1, None], "b": 'x"\n'}, None])).to_pylist()
    ['{"a":[1,null],"b":"x\\"\\n"}', None]

    Raises:
        TypeError: The type has no JSON equivalent; `unfit` detects such types.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        return json_of(array.storage)
    for checks, write in _WRITERS:
        if _is(array.type, checks):
            return write(array)
    raise TypeError(f"{array.type} has no JSON")


def objects_of(names: Sequence[str], arrays: Sequence[pa.Array], *, count: int) -> pa.Array:
    """Return one JSON object for each of `count` rows; nulls become null.

    >>> objects_of(["a", "b"], [pa.array([1, None]), pa.array(["x", "y"])], count=2).to_pylist()
    ['{"a":1,"b":"x"}', '{"a":null,"b":"y"}']
    """
    if not names:
        return pa.repeat(pa.scalar("{}", _TEXT), count)
    parts: list[pa.Array | pa.Scalar] = []
    for name, array in zip(names, arrays, strict=True):
        key = json.dumps(name, ensure_ascii=False)
        parts += [pa.scalar(f"{',' if parts else '{'}{key}:", _TEXT), json_of(array)]
    return _joined(*parts, pa.scalar("}", _TEXT))


def unfit(kind: pa.DataType) -> pa.DataType | None:
    """Return the first nested type without a JSON equivalent, or None.

    >>> unfit(pa.list_(pa.struct({"image": pa.binary()})))
    DataType(binary)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return unfit(kind.storage_type)
    if _t.is_dictionary(kind) or _is(kind, _LISTS):
        return unfit(kind.value_type)
    if _t.is_struct(kind):
        types = (unfit(field.type) for field in kind)
        return next((inner for inner in types if inner is not None), None)
    fits = _is(kind, (*_STRINGS, *_PLAIN, *_AS_STRINGS, _t.is_floating))
    return None if fits else kind


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists of any type."""
    return _is(kind, _LISTS)


def _is(kind: pa.DataType, checks: _Checks) -> bool:
    return any(check(kind) for check in checks)


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(
        *parts, _EMPTY, null_handling="replace", null_replacement="null"
    )


def _where_valid(texts: pa.Array, array: pa.Array) -> pa.Array:
    return _only_where(array.is_valid(), texts) if array.null_count else texts


def _only_where(chosen: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(chosen, texts, pa.scalar(None, _TEXT))


def _structs(array: pa.Array) -> pa.Array:
    names = [field.name for field in array.type]
    return _where_valid(objects_of(names, array.flatten(), count=len(array)), array)


def _floats(array: pa.Array) -> pa.Array:
    numbers = array.cast(pa.float64())
    return _only_where(pc.is_finite(numbers), numbers.cast(_TEXT))


def _lists(array: pa.Array) -> pa.Array:
    """Append a comma to all elements but the last of each list; nested lists become one."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = offsets_of(lengths.astype(np.int64))
    elements = json_of(array.flatten())
    commas = np.ones(len(elements), dtype=bool)
    commas[ends[1:][lengths > 0] - 1] = False
    comma = pc.if_else(pa.array(commas), pa.scalar(",", _TEXT), _EMPTY)
    data, offsets = _bytes_of(_joined(elements, comma))
    inside = _texts(data, offsets[ends])
    return _where_valid(_joined(pa.scalar("[", _TEXT), inside, pa.scalar("]", _TEXT)), array)


def _strings(array: pa.Array) -> pa.Array:
    array = array.cast(_TEXT)
    escaped = _texts(*_escaped(*_bytes_of(array)))
    quote = pa.scalar('"', _TEXT)
    return _where_valid(_joined(quote, escaped, quote), array)


def _escaped(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return texts, back to back, with escapes for bytes that JSON strings must not contain."""
    positions = np.flatnonzero((data < _LOWEST_PRINTABLE) | (data == _QUOTE) | (data == _BACKSLASH))
    if not len(positions):
        return data, offsets
    special = data[positions]
    there, raw = set(np.unique(special).tolist()), data.tobytes()
    for byte, escape in _ESCAPES.items():
        if byte in there:
            raw = raw.replace(bytes([byte]), escape)
    longer = offsets_of(_EXTRA[special])
    return np.frombuffer(raw, dtype=np.uint8), offsets + longer[np.searchsorted(positions, offsets)]


def _bytes_of(array: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return bytes and offsets of the texts of a large_string array, without copying."""
    _, starts, data = array.buffers()
    if starts is None or data is None or not len(array):
        return np.empty(0, dtype=np.uint8), np.zeros(len(array) + 1, dtype=np.int64)
    offsets = np.frombuffer(starts, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text_bytes = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return text_bytes, offsets - offsets[0]


def _texts(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(_TEXT, len(offsets) - 1, buffers, null_count=0)


_WRITERS: tuple[tuple[_Checks, Callable[[pa.Array], pa.Array]], ...] = (
    (_STRINGS, _strings),
    (_LISTS, _lists),
    ((_t.is_struct,), _structs),
    ((_t.is_dictionary,), lambda array: json_of(array.dictionary_decode())),
    ((_t.is_floating,), _floats),
    (_PLAIN, lambda array: array.cast(_TEXT)),
    (_AS_STRINGS, lambda array: _strings(array.cast(_TEXT))),
)


_MAX_COLUMNS = 20
_LIST_FIELDS = ("messages", "conversations", "history", "image_token_counts")
"""Columns that are lists; all other columns of a dialect are strings."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The content of the footer of a parquet file."""

    file: SourceFile
    """The file with its row groups, the hash of its footer, and its dialect."""
    unread: tuple[str, ...]
    """Columns that hold text and are not read."""


def read_footer(file: SourceFile, rules: DocumentRules, *, dialect: str | None) -> Footer:
    """Read the footer of a file, and check that it has the columns of its documents.

    Args:
        file: the file.
        rules: how its documents are read.
        dialect: the dialect of conversations and documents with images; None: it is detected.

    Raises:
        SourceError: The file is not a parquet file, its columns do not match the rules, the dialect
            or any dialect, or the column of ids does not exist.
    """
    with closing(ChunkFile(file.url)) as stored:
        parquet = open_parquet(stored, url=file.url)
        ignored: Sequence[str] = METADATA
        min_bytes = MIN_TEXT_BYTES
        if rules.kind != "text":
            dialect = dialect or _detected(parquet.schema_arrow.names, file.url, kind=rules.kind)
            file = replace(file, dialect=dialect)
            ignored, min_bytes = metadata_of(Dialect(kind=rules.kind, name=dialect)), 1
        selection = selection_of(parquet, file, rules)
        read = (*selection.columns, *selection.others)
        used = {name.partition(".")[0] for name in read} | {rules.id_column}
        groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        layout = (RowGroup(group.num_rows, selection.num_bytes(group)) for group in groups)
        return Footer(
            replace(file, layout=tuple(layout), footer_sha256=stored.footer_sha256()),
            unread_columns(parquet, used=used, metadata=ignored, min_bytes=min_bytes),
        )


def _detected(names: Sequence[str], url: str, *, kind: str) -> str:
    """Return the dialect of a file with these columns.

    Raises:
        SourceError: No dialect is known for them.
    """
    dialect = detect_columns(names, kind=kind)
    if dialect is not None:
        return dialect
    if is_preference(names):
        raise SourceError(f"{url}: {PREFERENCES}")
    columns = ", ".join(map(repr, names[:_MAX_COLUMNS])) or "none"
    is_text = kind == "chat" and "text" in names
    hint = 'set kind = "text" if the rows are texts, or ' if is_text else ""
    raise SourceError(
        f"{url}: no dialect of {kind} is known for its columns, {columns}; {hint}set dialect, or "
        "rename columns"
    )


def selection_of(parquet: pq.ParquetFile, file: SourceFile, rules: DocumentRules) -> Selection:
    """Return the selection of the columns of the documents of a file, and of the ids.

    Raises:
        SourceError: Columns are missing, duplicate, or of types that cannot be used.
    """
    url, id_column = file.url, rules.id_column
    if file.dialect is None:
        selection = text_selection(parquet, url=url, column=rules.column)
    else:
        selection = _row_selection(parquet, file, rules, dialect=file.dialect)
    if rules.columns and file.dialect is None:
        selection = _with_others(selection, parquet, rules.columns, url=url)
    if id_column is None:
        return selection
    number = column_number(parquet, url=url, column=id_column, key="id_column")
    return replace(selection, id_column=id_column, id_chunks=(number,))


def _with_others(
    selection: Selection, parquet: pq.ParquetFile, names: tuple[str, ...], *, url: str
) -> Selection:
    """Return a selection that also has the columns of a function."""
    chunks = list(selection.chunks)
    for name in names:
        numbers = numbers_of(parquet.metadata, name)
        if not numbers:
            raise _no_column(parquet, name, url=url)
        chunks += [number for number in numbers if number not in chunks]
    return replace(selection, others=names, chunks=tuple(chunks))


def _no_column(parquet: pq.ParquetFile, name: str, *, url: str) -> SourceError:
    names = ", ".join(map(repr, paths_of(parquet.metadata))) or "none"
    return SourceError(
        f"{url} has no column {name!r}; its columns are {names}; set columns in the recipe to "
        "some of them"
    )


def _row_selection(
    parquet: pq.ParquetFile, file: SourceFile, rules: DocumentRules, *, dialect: str
) -> Selection:
    """Return the selection of the columns of a dialect, each row as one object."""
    schema = parquet.schema_arrow
    try:
        names = columns_of(dialect, kind=rules.kind, available=schema.names)
    except SourceError as error:
        if not rules.columns:
            raise SourceError(f"{file.url}: {error}") from None
        names = ()  # the function makes the documents of other columns
    others = (*rules.columns, rules.tools)
    more = dict.fromkeys(name for name in others if name in schema.names and name not in names)
    for name in rules.columns:
        if name not in schema.names:
            raise _no_column(parquet, name, url=file.url)
    selection = _objects(parquet, (*names, *filter(None, more)), url=file.url)
    for name in names:
        _check_type(schema.field(name).type, name=name, dialect=dialect, url=file.url)
    return selection


def _objects(parquet: pq.ParquetFile, names: tuple[str, ...], *, url: str) -> Selection:
    """Return the selection of some columns, each row as one object."""
    return Selection(
        columns=names,
        chunks=tuple(number for name in names for number in _chunks(parquet, name, url=url)),
        documents=lambda batch: objects_of(
            names, [batch.column(name) for name in names], count=len(batch)
        ),
        is_json=True,
    )


def _chunks(parquet: pq.ParquetFile, name: str, *, url: str) -> list[int]:
    """Return the numbers of all columns of the footer that belong to one top-level column."""
    names = parquet.schema_arrow.names
    like = [column for column in names if column == name or column.startswith(f"{name}.")]
    if len(like) > 1:  # Arrow would read both, since it matches the beginning of a path
        raise SourceError(
            f"{url} has the columns {', '.join(map(repr, like))}, which cannot be distinguished; "
            "rename all but one"
        )
    return numbers_of(parquet.metadata, name)


def _check_type(kind: pa.DataType, *, name: str, dialect: str, url: str) -> None:
    wants_list = name in _LIST_FIELDS
    fits = pa.types.is_null(kind) or (is_list(kind) if wants_list else is_text(kind))
    if not fits:
        raise SourceError(
            f"{url}: column {name!r} is of type {kind}, and the dialect {dialect!r} needs a "
            f"{'list' if wants_list else 'string'}; rewrite the file accordingly, or set another "
            "dialect"
        )
    if (left := unfit(kind)) is not None:
        raise SourceError(
            f"{url}: column {name!r} holds values of type {left}, which JSON does not have; "
            "rewrite the file without them"
        )


def text_columns(parquet: pq.ParquetFile, *, url: str) -> Selection:
    """Return the selection of all columns that can hold text, each row as one object.

    Raises:
        SourceError: Columns cannot be distinguished.
    """
    schema = parquet.schema_arrow
    names = tuple(field.name for field in schema if _can_hold_text(field))
    return _objects(parquet, names, url=url)


def _can_hold_text(field: pa.Field) -> bool:
    is_nested = _t.is_nested(field.type) and not is_metadata(field.name)
    return (is_string(field.type) or is_nested) and unfit(field.type) is None
