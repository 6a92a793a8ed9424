"""Texts of any source in the form that the core reads, without copying Arrow data.

Sources are sequences and iterators of texts or of batches of texts, columns of numpy, pandas,
polars, Arrow and Hugging Face, and, with the name of a column, tables, data sets and rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from nanotok_ray.documents.arrow_texts import ArrowTexts, Rows, joined_rows
from nanotok_ray.documents.batch import Documents, Nulls, is_missing, type_of
from nanotok_ray.errors import SourceError, SplitError

if TYPE_CHECKING:
    import pyarrow as pa

    Part: TypeAlias = Documents | Sequence[Any] | pa.Array | pa.ChunkedArray
    """Texts in one object in memory."""
    Texts: TypeAlias = Iterable[Any] | Documents | pa.Array | pa.ChunkedArray
    """The types that `parts_of` accepts."""

BATCH_BYTES = 8 * 1024 * 1024
BATCH_TEXTS = 8192
_GROUP = 32
"""Texts whose sizes are added at a time: adding them one by one takes as long as the copy."""

ACCEPTED = (
    "a list, tuple or iterator of str or of bytes, or of batches of them; a column of numpy, "
    "pandas, polars, Arrow or Hugging Face; or, with column=, a table or a data set"
)


def parts_of(texts: "Texts", *, name: str = "texts", column: str | None = None) -> "Iterator[Part]":
    """Yield the texts of any source in parts, without copying Arrow columns.

    A list is one part. The first item of an iterable that is not None determines whether it
    contains texts or batches of texts.

    >>> [list(part) for part in parts_of(["a", "b"])], [*parts_of(iter([["a"], ("b", "c")]))]
    ([['a', 'b']], [['a'], ('b', 'c')])
    >>> [*parts_of({"id": [1], "text": ["a"]}, column="text")]
    [['a']]

    Raises:
        TypeError: `texts` is a single text, an unsupported object, or a table without `column`; or
            the column does not exist.
    """
    _check_source(texts, name=name)
    if column is not None:
        return _column_parts(texts, column, name=name)
    if isinstance(texts, Documents) or _is_arrow(texts):
        return iter([texts])
    if _is_array(texts):
        return iter([_array(texts, name=name)])
    if hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__"):
        return iter([_imported(texts, name=name)])
    source, source_column = getattr(texts, "source", None), getattr(texts, "column_name", None)
    if source_column is not None and _is_dataset(source):
        return _dataset_parts(source, source_column, name=name)
    return _items_parts(texts, name=name)


def arrow_parts_of(
    texts: "Texts", *, name: str = "texts", column: str | None = None
) -> "list[pa.Array | pa.ChunkedArray]":
    """Return the texts of any source as Arrow arrays; missing texts of Python become nulls.

    Raises:
        TypeError: As for `batches_of`.
    """
    import pyarrow as pa  # noqa: PLC0415 - only who wants Arrow comes here
    import pyarrow.compute as pc  # noqa: PLC0415

    reader = _Reader(name=name, nulls="empty")
    arrays = []
    for part in parts_of(texts, name=name, column=column):
        if isinstance(part, Documents):
            arrays.append(part.to_arrow(as_bytes=True))
        elif isinstance(part, pa.Array | pa.ChunkedArray):
            arrays.append(part.cast("string") if pa.types.is_null(part.type) else part)
        else:
            array = reader.documents(part).to_arrow(as_bytes=True)
            missing = pa.array([is_missing(text) for text in part], pa.bool_())
            arrays.append(pc.if_else(missing, pa.scalar(None, array.type), array))
    return arrays


def batches_of(
    texts: "Texts", *, nulls: Nulls = "error", name: str = "texts", column: str | None = None
) -> Iterator[Documents]:
    """Return texts of any source in batches; texts in one buffer are not copied.

    >>> [list(batch) for batch in batches_of(iter([b"a", None]), nulls="empty")]
    [[b'a', b'']]

    Raises:
        TypeError: As for `parts_of`; or a text is neither str nor bytes, not of the type of the
            first one, or missing while `nulls` is "error"; the message names its row.
        SourceError: An array contains values other than texts, or a null (the message names its
            first row); or `nulls` is neither "error" nor "empty".
    """
    check_nulls(nulls)
    reader = _Reader(name=name, nulls=nulls)
    return chain.from_iterable(map(reader.batches, parts_of(texts, name=name, column=column)))


def encode_texts(
    texts: "Texts",
    encode: Callable[[Documents], Rows],
    encode_strings: Callable[[Sequence[str]], Rows] | None = None,
    *,
    nulls: Nulls = "error",
    column: str | None = None,
) -> Rows:
    """Encode texts of any source part by part, and return the ids of every text.

    `encode_strings` encodes sequences of str. It can raise TypeError for other types and
    UnicodeEncodeError for lone surrogates; such sequences are passed to `encode`.

    Raises:
        TypeError, SourceError: As for `batches_of`.
        SplitError: `encode` raised it; the message names the number of texts before that part.
    """
    check_nulls(nulls)
    reader = _Reader(name="texts", nulls=nulls)
    rows: list[Rows] = []
    for part in parts_of(texts, column=column):
        try:
            if isinstance(part, Documents):
                rows.append(encode(part))
            elif _is_arrow(part):
                rows.append(ArrowTexts.from_arrow(part, nulls=nulls).encode(encode))
            else:
                rows.append(reader.encoded(part, encode, encode_strings))
        except SplitError as error:
            before = sum(len(offsets) - 1 for _, offsets in rows)
            raise SplitError(f"after {before} texts, {error}" if before else str(error)) from None
    return joined_rows(rows) if rows else encode(Documents.from_bytes([]))


def check_nulls(nulls: str) -> None:
    """Check the name of a rule for missing texts.

    Raises:
        SourceError: The rule is unknown.
    """
    if nulls not in get_args(Nulls):
        raise SourceError(f'nulls is {nulls!r}: it must be "error" or "empty"')


def _is_arrow(texts: object) -> bool:
    """Return whether a value is an array of pyarrow (a polars Series has no `type`)."""
    return hasattr(texts, "type") and hasattr(texts, "null_count")


def _check_source(texts: object, *, name: str) -> None:
    """Refuse values that are easily mistaken for a collection of texts.

    Raises:
        TypeError: The value is a single text, or a query that was not executed.
    """
    if isinstance(texts, str | bytes | bytearray):
        raise TypeError(f"{name}: expected texts, got one text: put it into a list")
    if hasattr(texts, "collect") and not hasattr(texts, "__arrow_c_stream__"):
        raise TypeError(f"{name} is {type_of(texts)}, which is not run yet: collect it")


def _is_array(texts: object) -> bool:
    """Return whether a value is an array of numpy, or a column of pandas that is not Arrow's."""
    if isinstance(texts, np.ndarray):
        return True
    is_pandas = all(hasattr(texts, name) for name in ("array", "dtype", "tolist"))
    return is_pandas and (
        str(getattr(texts, "dtype", "")) == "object" or not hasattr(texts, "__arrow_c_stream__")
    )


def _array(texts: Any, *, name: str) -> "Part":  # noqa: ANN401 - neither package may be imported
    if texts.ndim != 1:
        raise TypeError(f"{name} is an array of {texts.ndim} dimensions: expected one")
    if isinstance(texts, np.ndarray) and texts.dtype.kind not in "OSTU":
        raise TypeError(f"{name} is an array of {texts.dtype}: expected one of strings or objects")
    if hasattr(getattr(texts, "array", None), "__arrow_array__"):
        import pyarrow as pa  # noqa: PLC0415 - only who brings such a column comes here

        return pa.array(texts.array)
    part: list[Any] = texts.tolist()
    return part


def _imported(texts: object, *, name: str) -> "pa.Array | pa.ChunkedArray":
    """Return the array of an Arrow PyCapsule export; of a table, its only column."""
    import pyarrow as pa  # noqa: PLC0415 - only who brings Arrow comes here

    array = pa.array(texts) if not hasattr(texts, "__arrow_c_stream__") else pa.chunked_array(texts)
    if not pa.types.is_struct(array.type):
        return array
    names = [field.name for field in array.type]
    if len(names) != 1:
        raise TypeError(_names_missing(texts, names, name=name))
    fields = [chunk.field(0) for chunk in getattr(array, "chunks", [array])]
    return pa.chunked_array(fields, array.type[0].type)


def _is_dataset(texts: object) -> bool:
    """Return whether a value is a data set of Hugging Face's `datasets`."""
    return all(hasattr(texts, name) for name in ("select_columns", "with_format", "iter"))


def _dataset_parts(dataset: Any, column: str, *, name: str) -> "Iterator[Part]":  # noqa: ANN401
    """Yield a column of a data set as it is stored, or the result of its transform."""
    if (getattr(dataset, "format", None) or {}).get("type") == "custom":
        return _rows_parts(dataset.iter(batch_size=BATCH_TEXTS), column, name=name)
    chosen = dataset.select_columns([column]).with_format("arrow")
    return (table.column(column) for table in chosen.iter(batch_size=BATCH_TEXTS))


def _column_names(texts: object) -> "list[Any] | None":
    """Return the columns of a table or data set, or None for other objects or if unknown."""
    if isinstance(texts, Mapping):
        return list(texts)
    schema = getattr(texts, "schema", None)
    for names in (
        getattr(texts, "column_names", None),
        getattr(schema, "names", None),
        getattr(texts, "columns", None),
    ):
        if names is not None and not callable(names):
            return list(names)
    return None


def _column_parts(texts: Any, column: str, *, name: str) -> "Iterator[Part]":  # noqa: ANN401
    """Yield the parts of a column of a table, a data set, or an iterable of rows or of tables."""
    names = _column_names(texts)
    if names is not None and column not in names:
        what = f"{type_of(texts)} with the columns {', '.join(map(str, names))}"
        raise TypeError(f"{name} has no column {column!r}: it is {what}")
    if _is_dataset(texts):
        return _dataset_parts(texts, column, name=name)
    if hasattr(texts, "scanner"):  # a data set of pyarrow
        return (batch.column(column) for batch in texts.to_batches(columns=[column]))
    is_frame = names is not None and type(texts).__module__.startswith(("pandas", "polars"))
    if isinstance(texts, Mapping) or is_frame:
        return parts_of(texts[column], name=f"{name}[{column!r}]")
    if hasattr(texts, "column") and hasattr(texts, "schema"):
        return iter([texts.column(column)])
    if hasattr(texts, "__arrow_c_stream__"):
        return _stream_parts(texts, column, name=name)
    if names is None and _is_batch(texts) and not _is_array(texts):
        return _rows_parts(texts, column, name=name)
    raise TypeError(_without_columns(texts, name=name))


def _names_missing(texts: object, names: Sequence[Any], *, name: str) -> str:
    what = f"{name} is {type_of(texts)} with the columns {', '.join(map(str, names))}"
    return f"{what}: name one of them with column="


def _without_columns(texts: object, *, name: str) -> str:
    return f"{name} is {type_of(texts)}, which has no columns: leave out column="


def _stream_parts(texts: object, column: str, *, name: str) -> "Iterator[Part]":
    import pyarrow as pa  # noqa: PLC0415 - only who brings Arrow comes here

    try:
        reader = pa.RecordBatchReader.from_stream(texts)
    except pa.ArrowInvalid:
        raise TypeError(_without_columns(texts, name=name)) from None
    if column not in reader.schema.names:
        raise TypeError(
            f"{name} has no column {column!r}: it is {type_of(texts)} with the columns "
            f"{', '.join(reader.schema.names)}"
        )
    return (batch.column(column) for batch in reader)


def _rows_parts(rows: Iterable[Any], column: str, *, name: str) -> "Iterator[Part]":
    """Yield the column of rows, which are mappings, or of tables."""

    def values() -> Iterator[Any]:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                yield list(_column_parts(row, column, name=f"{name}, item {number}"))
            elif column in row:
                yield row[column]
            else:
                keys = ", ".join(map(str, row))
                raise TypeError(f"{name}, item {number}: no {column!r} among its keys {keys}")

    return _items_parts(values(), name=f"{name}[{column!r}]")


def _items_parts(items: Any, *, name: str) -> "Iterator[Part]":  # noqa: ANN401 - what was given
    """Yield the parts of an iterable of texts, or of batches of texts."""
    _check_items(items, name=name)
    rest, seen = iter(items), []
    for item in rest:
        seen.append(item)
        if item is not None:
            break
    if seen and _is_batch(seen[-1]):
        for number, batch in enumerate(chain(seen, rest)):
            if batch is not None:
                yield from parts_of(batch, name=f"{name}, item {number}")
    elif isinstance(items, list | tuple):
        yield items
    else:
        yield from _gathered(chain(seen, rest))


def _check_items(items: object, *, name: str) -> None:
    names = _column_names(items)
    if names is not None:
        raise TypeError(_names_missing(items, names, name=name))
    if not isinstance(items, Iterable):
        raise TypeError(f"{name} is {type_of(items)}: expected {ACCEPTED}")


def _is_batch(item: object) -> bool:
    return not isinstance(item, str | bytes | bytearray) and (
        isinstance(item, Iterable)
        or hasattr(item, "__arrow_c_array__")
        or hasattr(item, "__arrow_c_stream__")
    )


def _gathered(texts: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield lists of texts that are large enough for all threads of a call of the core."""
    rest = iter(texts)
    batch: list[Any] = []
    size = 0
    while group := list(islice(rest, min(_GROUP, BATCH_TEXTS))):
        batch += group
        size += _size(group)
        if size >= BATCH_BYTES or len(batch) >= BATCH_TEXTS:
            yield batch
            batch, size = [], 0
    yield batch


def _size(texts: list[Any]) -> int:
    try:
        return sum(map(len, texts))
    except TypeError:  # a text is missing or is not a text
        return sum(len(text) for text in texts if isinstance(text, str | bytes))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Converts parts to batches, and keeps the type and the number of the texts so far."""

    name: str
    nulls: Nulls
    kind: type[str] | type[bytes] | None = None
    """The type of the first text that is not missing."""
    rows: int = 0

    def batches(self, part: "Part") -> Iterator[Documents]:
        """Yield the texts of a part; Python's strings and bytes are copied in batches."""
        if isinstance(part, Documents):
            yield part
        elif _is_arrow(part):
            yield from ArrowTexts.from_arrow(part, nulls=self.nulls, name=self.name).batches(
                max_bytes=BATCH_BYTES, max_texts=BATCH_TEXTS
            )
        else:
            yield from map(self.documents, _gathered(part))

    def encoded(
        self,
        texts: Sequence[Any],
        encode: Callable[[Documents], Rows],
        encode_strings: Callable[[Sequence[str]], Rows] | None,
    ) -> Rows:
        """Encode a sequence of texts, without copying str if possible.

        Raises:
            TypeError: As for `documents`.
        """
        if encode_strings is not None and self.kind is not bytes:
            try:
                rows = encode_strings(texts)
            except (TypeError, UnicodeEncodeError):  # bytes, missing texts, surrogates, or an error
                return encode(self.documents(texts))
            self.kind = str if len(texts) else self.kind
            self.rows += len(texts)
            return rows
        return encode(self.documents(texts))

    def documents(self, texts: Sequence[Any]) -> Documents:
        """Return a sequence of texts as one batch.

        Raises:
            TypeError: A text is missing, not a text, or not of the type of the first one.
        """
        if self.kind is None:
            first = next((text for text in texts if not is_missing(text)), None)
            self.kind = bytes if isinstance(first, bytes | bytearray) else str
        kind, given = self.kind, texts
        if self.nulls == "empty":
            given = [kind() if is_missing(text) else text for text in texts]
        try:
            made = (Documents.from_bytes if kind is bytes else Documents.from_strings)(given)
        except TypeError:
            row = next(row for row, text in enumerate(given) if not _is_text(text, kind))
            raise TypeError(
                f"{self.name}, row {self.rows + row}: {_wrong(given[row], kind)}"
            ) from None
        self.rows += len(made)
        return made


def _is_text(value: object, kind: type) -> bool:
    return isinstance(value, (kind, bytearray) if kind is bytes else kind)


def _wrong(value: object, kind: type) -> str:
    if is_missing(value):
        return f'{value!r} is not an instance of {kind.__name__!r}; drop it, or pass nulls="empty"'
    what = f"{type(value).__name__!r} object is not"
    is_other = kind is bytes and isinstance(value, str)
    return (
        f"{what} bytes, as the texts before it are"
        if is_other
        else (f"{what} an instance of {kind.__name__!r}")
    )
