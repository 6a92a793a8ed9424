"""Determines how the documents of an unknown file can be read, from the beginning of the file."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from nanotok_ray.dialects import detect_columns
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.sources.look import FirstDocument, decoded_start, first_document
from nanotok_ray.sources.parquet_column import open_parquet
from nanotok_ray.sources.parquet_pages import ChunkFile
from nanotok_ray.sources.stored import FIRST_BYTES, invalid_at, is_compressed
from nanotok_ray.storage import InputFile, read_start, unreadable
from nanotok_ray.units import few

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_FORMATS = {
    ".parquet": "parquet",
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".txt", ".text", ".md", ".rst"), "document"),
}
_TURNS = ("messages", "sharegpt")
"""Dialects whose documents are certainly conversations."""

_TEXT_NAMES = ("text", "content", "body", "document", "raw_content", "code", "markdown")
_ID_NAMES = ("id", "url", "doc_id", "uuid", "path")
_START_BYTES = 1 << 20
_CUT_BYTES = 3  # bytes of a character that continues after the start


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
    others: str = ""
    """Other columns or fields of text."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """The result of examining a file."""

    file: InputFile
    shape: Shape | None = None
    """None: the file has no documents or cannot be used."""
    problem: str = ""


def look_at(file: InputFile) -> SeenFile:
    """Open a file and determine how its documents can be read.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    suffix, compression = split_suffix(file.path)
    form = _FORMATS.get(suffix.lower())
    try:
        if form is None or (form == "parquet" and compression is not None):
            return SeenFile(file, problem="no known format")
        if form == "parquet":
            return SeenFile(file, _parquet_shape(file.path))
        return SeenFile(file, _text_shape(file, form, compression))
    except TransientIOError:
        raise
    except SourceError as error:
        problem = str(error).removeprefix(f"{file.path}: ").replace(file.path, "it")
        return SeenFile(file, problem=problem)
    except OSError as error:
        return SeenFile(file, problem=unreadable(file.path, error))


def split_suffix(path: str) -> tuple[str, str | None]:
    """Return the suffix of the format and the compression.

    >>> split_suffix("/a.b/c.jsonl.gz"), split_suffix("/a.b/c")
    (('.jsonl', 'gzip'), ('', None))
    """
    name = path.rpartition("/")[2]
    compression = next((kind for end, kind in _COMPRESSIONS.items() if name.endswith(end)), None)
    if compression is not None:
        name = name.rpartition(".")[0]
    return os.path.splitext(name)[1], compression  # noqa: PTH122 - may be of a URL


def _parquet_shape(path: str) -> Shape:
    with closing(ChunkFile(path)) as file:
        parquet = open_parquet(file, url=path)
        schema, metadata = parquet.schema_arrow, parquet.metadata
        sizes = dict.fromkeys(schema.names, 0)
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                if column.path_in_schema in sizes:
                    sizes[column.path_in_schema] += column.total_uncompressed_size
    texts = {field.name: sizes[field.name] for field in schema if _is_text(field.type)}
    turns = [field.name for field in schema if pa.types.is_nested(field.type)]
    ids = [*texts, *(field.name for field in schema if pa.types.is_integer(field.type))]
    return _shape("parquet", texts, ids, schema.names, has_turns=bool(turns))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _text_shape(file: InputFile, form: str, compression: str | None) -> Shape | None:
    """Return the shape of a file of JSON lines or plain text, or None if it has no documents.

    Raises:
        SourceError: The content contradicts the name.
    """
    stored = read_start(file.path, _START_BYTES) if file.size else b""
    if stored and compression and not is_compressed(stored[:FIRST_BYTES], compression):
        raise SourceError(f"not {compression}, though the name says so")
    is_whole = len(stored) >= file.size
    if not stored:
        return None
    if form == "jsonl":
        return _json_shape(
            first_document(
                stored, compression=compression, max_bytes=_START_BYTES, is_whole=is_whole
            )
        )
    start, has_ended = decoded_start(stored, compression, max_bytes=_START_BYTES)
    offset = invalid_at(start)
    is_cut = offset is not None and offset >= len(start) - _CUT_BYTES
    if offset is not None and not (is_cut and not (is_whole and has_ended)):
        raise SourceError("not UTF-8 text")
    return Shape(format="document")


def _json_shape(found: FirstDocument) -> Shape | None:
    value = found.value
    if found.shape == "array":
        raise SourceError("one JSON array; write each element on one line")
    if found.shape is not None or (not found.is_there and not found.is_blank):
        raise SourceError("not JSON lines; write each document on one line")
    if not found.is_there:
        return None
    if isinstance(value, list):
        return Shape(format="jsonl", kind="chat", dialect="messages")
    if not isinstance(value, dict):
        raise SourceError("its first line is neither a JSON object nor a conversation")
    texts = {name: len(text) for name, text in value.items() if isinstance(text, str)}
    ids = [*texts, *(name for name, number in value.items() if isinstance(number, float))]
    turns = any(isinstance(value.get(name), list) for name in ("messages", "conversations"))
    return _shape("jsonl", texts, ids, list(value), has_turns=turns)


def _shape(
    form: str,
    texts: Mapping[str, int],
    ids: Sequence[str],
    names: Sequence[str],
    *,
    has_turns: bool,
) -> Shape:
    """Choose the kind: documents with images, conversations, otherwise the most likely text.

    Args:
        form: parquet or jsonl.
        texts: the columns or fields of text, with their sizes.
        ids: the columns or fields of text or integers.
        names: all columns or fields.
        has_turns: whether one of them contains lists.

    Raises:
        SourceError: No column or field can be read.
    """
    if "image_token_counts" in names and detect_columns(names, kind="vision"):
        return Shape(format=form, kind="vision")
    named = next((name for name in _TEXT_NAMES if name in texts), None)
    dialect = detect_columns(names, kind="chat")
    if (has_turns and dialect in _TURNS) or (dialect not in {None, *_TURNS} and named is None):
        return Shape(format=form, kind="chat", dialect=dialect or "")
    if not texts:
        listed = few([repr(name) for name in names]) or "none"
        raise SourceError(f"no text and no conversation in the columns or fields {listed}")
    column = named or max(texts, key=texts.__getitem__)
    found = next((name for name in _ID_NAMES if name in ids and name != column), "")
    others = few([name for name in sorted(texts) if name not in {column, found}])
    return Shape(format=form, column=column, ids=found, others=others)
