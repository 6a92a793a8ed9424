"""Determines how the documents of an unknown file can be read, from the beginning of the file."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from nanotok_ray.dialects import JsonObject, detect_columns, value_of
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import SourceFile
from nanotok_ray.sources.columns import (
    MIN_TEXT_BYTES,
    PREFERENCES,
    TEXT_NAMES,
    TextColumn,
    is_preference,
    text_column,
    text_field,
)
from nanotok_ray.sources.files import source_file
from nanotok_ray.sources.names import ARRAY, PLAIN_FORMATS, convertible, split_suffix
from nanotok_ray.sources.parquet import first_rows
from nanotok_ray.sources.parquet_column import is_string, open_parquet, unread_columns
from nanotok_ray.sources.parquet_pages import ChunkFile
from nanotok_ray.sources.parquet_rows import text_columns
from nanotok_ray.sources.start import START_BYTES, Start, starts
from nanotok_ray.storage import InputFile, unreadable
from nanotok_ray.units import few

NOT_TEXT: Final = "not UTF-8 text"
"""The problem of a file whose documents will be quarantined."""

_TURNS = ("messages", "sharegpt")
"""Dialects whose documents are certainly conversations."""

_ID_NAMES = ("id", "url", "doc_id", "uuid", "path")
_MAX_ROW_BYTES = 1 << 24


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """The way in which the documents of a file are read."""

    format: str
    kind: str = "text"
    column: str = ""
    dialect: str = ""
    """The dialect of conversations; the recipe omits it, since it is detected for each file."""
    ids: str = ""
    """A column or field that can identify documents."""
    others: tuple[str, ...] = ()
    """Other columns or fields of text, which are not read."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The result of examining a file."""

    file: InputFile
    shape: Shape | None = None
    """None: the file has no documents or cannot be used."""
    problem: str = ""
    """The reason why it cannot be used, or with a shape, why its documents will be quarantined."""
    is_unused: bool = False
    """Whether it is no part of a corpus that is read, which is not an error."""


def look_at(file: InputFile, *, form: str, column: str | None = None) -> SeenFile:
    """Open a file and determine how its documents can be read.

    Args:
        file: the file.
        form: its format.
        column: the column or field of the text; None: it is chosen, or the rows are conversations.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    if form == "parquet" and split_suffix(file.path)[1] is not None:
        return SeenFile(file, problem="a compressed parquet file; decompress it")
    opened = source_file(file, name=file.path, format_name=form)
    try:
        if form in PLAIN_FORMATS:
            return _plain(file, opened)
        return SeenFile(file, _column_shape(opened, column=column))
    except TransientIOError:
        raise
    except SourceError as error:
        problem = str(error).removeprefix(f"{file.path}: ").replace(file.path, "it")
        return SeenFile(file, problem=problem)
    except OSError as error:
        return SeenFile(file, problem=unreadable(file.path, error).replace(file.path, "it"))


def text_shape(file: SourceFile) -> Shape | None:
    """Return the shape of the texts of a parquet file or JSON lines; None: it has no documents.

    Raises:
        SourceError: The file cannot be read, no column can be chosen, or it holds conversations.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    try:
        shape = _column_shape(file)
    except TransientIOError:
        raise
    except SourceError as error:
        if str(error) == ARRAY:
            raise SourceError(f"{ARRAY}: {convertible(file.url)}") from error
        raise
    except OSError as error:
        raise SourceError(unreadable(file.url, error)) from error
    if shape is not None and not shape.column:
        what = "documents with images" if shape.kind == "vision" else "conversations"
        raise SourceError(
            f'it holds {what}, which need kind = "{shape.kind}"; to read one column as text, set '
            "column in the recipe to it"
        )
    return shape


def _column_shape(file: SourceFile, *, column: str | None = None) -> Shape | None:
    """Return the shape of a parquet file or JSON lines, or None if it has no documents."""
    if file.format == "parquet":
        return _parquet_shape(file.url, column=column)
    return _lines_shape(file, column=column)


def _parquet_shape(path: str, *, column: str | None) -> Shape | None:
    """Return the shape of a parquet file, or None if it has no rows to choose a column from."""
    with closing(ChunkFile(path)) as file:
        parquet = open_parquet(file, url=path)
        schema, metadata = parquet.schema_arrow, parquet.metadata
        strings = [field.name for field in schema if is_string(field.type)]
        known = next((name for name in TEXT_NAMES if name in strings), None)
        others = known and unread_columns(parquet, used=(known,), min_bytes=MIN_TEXT_BYTES)
    if not metadata.num_rows and not known and detect_columns(schema.names, kind="chat") is None:
        return None

    def choose() -> TextColumn:
        if known and not others:  # nearly always
            return TextColumn(known)
        return text_column(_first_rows(path), strings=strings)

    columns = _Columns(
        form="parquet",
        names=schema.names,
        strings=strings,
        ids=[*strings, *(field.name for field in schema if pa.types.is_integer(field.type))],
        has_turns=any(pa.types.is_nested(field.type) for field in schema),
    )
    return _shape(columns, column=column, choose=choose)


def _first_rows(path: str) -> list[JsonObject]:
    """Return the first rows of a parquet file; none if they cannot be read."""
    select = partial(text_columns, url=path)
    batch = first_rows(path, select, max_document_bytes=_MAX_ROW_BYTES)
    return [value_of(document) for document in batch.documents] if batch else []


def _plain(file: InputFile, opened: SourceFile) -> SeenFile:
    """Look at a file of plain text, which is a bad document if it does not begin with UTF-8."""
    if not file.size:
        return SeenFile(file)
    (start,) = _starts(opened, START_BYTES[-1:])
    problem = "" if start.invalid_at is None else NOT_TEXT
    return SeenFile(file, Shape(format=opened.format), problem=problem)


def _starts(file: SourceFile, sizes: Sequence[int] = START_BYTES) -> Iterator[Start]:
    """Yield the start of a file in increasing sizes.

    Raises:
        SourceError: It contradicts the name.
    """
    for start in starts(file, sizes):
        if start.misnamed:
            raise SourceError(f"not {file.compression}, though the name says so")
        yield start


def _lines_shape(file: SourceFile, *, column: str | None) -> Shape | None:
    """Return the shape of a file of JSON lines, or None if it has no documents.

    Raises:
        SourceError: The content contradicts the name.
    """
    values, shape, is_blank = [], None, True
    for start in _starts(file):
        values, shape, is_blank = start.values(), start.shape, start.is_blank
        if values and shape is None:
            break
    if shape == "array":
        raise SourceError(ARRAY)
    if shape is not None or not (values or is_blank):
        raise SourceError("not JSON lines; write each document on one line")
    if not values:
        return None
    if isinstance(values[0], list):
        return Shape(format="jsonl", kind="chat", dialect="messages")
    if not isinstance(values[0], dict):
        raise SourceError("its first line is neither a JSON object nor a conversation")
    documents = [value for value in values if isinstance(value, dict)]
    types = dict.fromkeys((name, type(field)) for row in documents for name, field in row.items())
    columns = _Columns(
        form="jsonl",
        names=list(values[0]),
        strings=[name for name, kind in types if kind is str],
        ids=[name for name, kind in types if kind in {str, float}],
        has_turns=any((name, list) in types for name in ("messages", "conversations")),
    )
    return _shape(columns, column=column, choose=lambda: text_field(documents))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Columns:
    """The columns of a parquet file, or the fields of its JSON."""

    form: str
    """parquet or jsonl."""
    names: Sequence[str]
    strings: Collection[str]
    """Those of strings."""
    ids: Collection[str]
    """Those of strings or integers."""
    has_turns: bool
    """Whether one of them contains lists."""


def _shape(columns: _Columns, *, column: str | None, choose: Callable[[], TextColumn]) -> Shape:
    """Choose the kind: documents with images, conversations, otherwise texts.

    Args:
        columns: the columns or fields.
        column: the column of the text, if it is given.
        choose: chooses the column of the text.

    Raises:
        SourceError: No column or field can be read, several can be the text, or the documents are
            preference data.
    """
    form, names, strings = columns.form, columns.names, columns.strings
    if column is not None:
        if column not in strings:
            listed = few([*map(repr, names)])
            raise SourceError(f"no column or field {column!r} of strings; it has {listed}")
        return Shape(format=form, column=column, ids=_ids(columns.ids, column))
    if is_preference(names):
        raise SourceError(PREFERENCES)
    if "image_token_counts" in names and detect_columns(names, kind="vision"):
        return Shape(format=form, kind="vision")
    dialect = detect_columns(names, kind="chat")
    is_text = dialect in {"gsm8k", "prompt-response"} and not {*TEXT_NAMES}.isdisjoint(strings)
    if dialect is not None and not is_text and (columns.has_turns or dialect not in _TURNS):
        return Shape(format=form, kind="chat", dialect=dialect)
    chosen = choose()
    ids = _ids(columns.ids, chosen.name)
    others = tuple(name for name in chosen.others if name != ids)
    return Shape(format=form, column=chosen.name, ids=ids, others=others)


def _ids(names: Collection[str], column: str) -> str:
    return next((name for name in _ID_NAMES if name in names and name != column), "")
