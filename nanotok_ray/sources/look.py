"""Checks whether and how a file can be read, from its first bytes and its first document."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from nanotok_ray.dialects import detect
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import SourceFile
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.columns import PREFERENCES, is_preference
from nanotok_ray.sources.json_lines import BOM, Shape, shape_of
from nanotok_ray.sources.names import convertible
from nanotok_ray.sources.parquet_column import read_footer
from nanotok_ray.sources.parquet_rows import read_rows_footer
from nanotok_ray.sources.stored import FIRST_BYTES, is_compressed, is_damage
from nanotok_ray.storage import read_start, unreadable

_STEP_BYTES = 1 << 14
_DECODER = json.JSONDecoder(parse_int=float)  # parsed as floats, numbers may have any length


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstDocuments:
    """The first lines that are JSON, or the reason why there are none."""

    values: tuple[Any, ...] = ()
    is_blank: bool = False
    """Whether the file contains only blank lines."""
    shape: Shape | None = None
    """The shape of a file whose values are not one per line."""


def first_documents(
    stored: bytes,
    *,
    compression: str | None,
    max_bytes: int,
    is_whole: bool,
    max_documents: int = 1,
) -> FirstDocuments:
    r"""Return the first lines that are JSON among the first `max_bytes` decoded bytes.

    >>> first_documents(b'\n{"a": 1}\n{"b', compression=None, max_bytes=99, is_whole=False).values
    ({'a': 1.0},)
    """
    start, has_ended = decoded_start(stored, compression, max_bytes=max_bytes)
    is_whole = is_whole and has_ended
    shape = shape_of(start, is_whole=is_whole)
    lines = start.removeprefix(BOM).split(b"\n")
    values = tuple(islice(_json_values(lines if is_whole else lines[:-1]), max_documents))
    is_blank = is_whole and not any(line.strip() for line in lines)
    return FirstDocuments(values=values, is_blank=is_blank, shape=shape)


def _json_values(lines: Iterable[bytes]) -> Iterator[Any]:
    for line in lines:
        with suppress(ValueError, RecursionError):
            yield _DECODER.decode(line.decode())


def decoded_start(stored: bytes, compression: str | None, *, max_bytes: int) -> tuple[bytes, bool]:
    """Return up to `max_bytes` decoded bytes, and whether these are all.

    A compressed start is decoded in steps; a step that fails yields nothing.
    """
    if compression is None:
        return stored[:max_bytes], len(stored) < max_bytes
    decoded, has_ended = bytearray(), False
    with pa.CompressedInputStream(pa.BufferReader(stored), compression) as stream:
        try:
            while len(decoded) < max_bytes and (part := stream.read(_STEP_BYTES)):
                decoded += part
            has_ended = len(decoded) < max_bytes
        except (OSError, pa.ArrowInvalid) as error:
            if not is_damage(error):
                raise
    return bytes(decoded[:max_bytes]), has_ended


FALLBACK_DIALECT: Final = "messages"
"""The dialect of a file whose first document cannot be read."""

_LOOK_BYTES = (1 << 16, 1 << 20)  # nearly always the first size is enough
_SHAPES: Final[Mapping[Shape, str]] = {
    "array": "one JSON array",
    "spread": "JSON spread over several lines (pretty-printed)",
}
_MAX_KEYS = 5
_MAX_CHARS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """The result of opening a file: its attributes, or the reason why it cannot be used."""

    file: SourceFile
    problem: str | None = None
    oddity: str | None = None
    """The property that contradicts its name."""
    unread: tuple[str, ...] = ()
    """Columns that can hold text, which the recipe neither reads nor leaves out by name."""
    is_guessed: bool = False
    """Whether the dialect is `FALLBACK_DIALECT` because no document was found."""


def look(file: SourceFile, *, source: SourceRecipe) -> Look:
    """Open a file and read what planning needs.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    try:
        if file.format == "parquet":
            return _footer(file, source=source)
        is_sought = source.kind != "text" and source.dialect is None
        size = _LOOK_BYTES[0] if is_sought else FIRST_BYTES
        start = read_start(file.url, size) if file.size else b""
        first = start[:FIRST_BYTES]
        if first and file.compression and not is_compressed(first, file.compression):
            oddity = f"{file.path} is not {file.compression} (it begins {first!r})"
            return Look(file=_with_dialect(file, source=source), oddity=oddity)
        if is_sought and file.size:
            return _seen(file, start, source=source)
        return Look(file=_with_dialect(file, source=source))
    except TransientIOError:
        raise
    except SourceError as error:
        return Look(file=file, problem=str(error))
    except OSError as error:
        return Look(file=file, problem=unreadable(file.url, error))


def _footer(file: SourceFile, *, source: SourceRecipe) -> Look:
    if source.kind == "text":
        footer = read_footer(file.url, column=source.column, id_column=source.id_column)
        return Look(
            file=replace(file, layout=footer.layout, footer_sha256=footer.sha256),
            unread=() if "column" in source.model_fields_set else footer.unread,
        )
    footer, dialect = read_rows_footer(
        file.url, kind=source.kind, dialect=source.dialect, id_column=source.id_column
    )
    return Look(
        file=replace(file, layout=footer.layout, footer_sha256=footer.sha256, dialect=dialect),
        unread=footer.unread,
    )


def _with_dialect(file: SourceFile, *, source: SourceRecipe) -> SourceFile:
    """Return a file with the dialect of the recipe, or that of files without documents."""
    if source.kind == "text":
        return file
    return replace(file, dialect=source.dialect or FALLBACK_DIALECT)


def _seen(file: SourceFile, start: bytes, *, source: SourceRecipe) -> Look:
    """Detect the dialect of a file of JSON lines from its first document.

    Raises:
        SourceError: No dialect matches the document.
    """
    found = _first_document(file, start)
    if not found.values and len(start) < min(file.size, _LOOK_BYTES[1]):
        found = _first_document(file, read_start(file.url, _LOOK_BYTES[1]))
    if not found.values:
        return Look(file=_with_dialect(file, source=source), is_guessed=not found.is_blank)
    value = found.values[0]
    dialect = detect(value, kind=source.kind)
    if dialect is None:
        if found.shape is not None:
            step = "write one document per line, or remove the file"
            if found.shape == "array":
                step = f"write each element on one line: {convertible(file.url)}"
            raise SourceError(f"{file.url} is not JSON lines but {_SHAPES[found.shape]}; {step}")
        if isinstance(value, dict) and is_preference(value):
            raise SourceError(f"{file.url}: {PREFERENCES}")
        has_text = source.kind == "chat" and isinstance(value, dict) and "text" in value
        hint = 'set kind = "text" if the documents are texts, or ' if has_text else ""
        raise SourceError(
            f"{file.url}: its first document is {_describe(value)}: no dialect of "
            f"{source.kind} is known for it; {hint}set dialect, or write messages"
        )
    return Look(file=replace(file, dialect=dialect))


def _first_document(file: SourceFile, start: bytes) -> FirstDocuments:
    return first_documents(
        start,
        compression=file.compression,
        max_bytes=_LOOK_BYTES[1],
        is_whole=len(start) >= file.size,
    )


def _describe(value: object) -> str:
    """Return a description of a JSON value.

    >>> _describe({"a": 1, "b": 2}), _describe(3.0)
    ("an object with the keys 'a', 'b'", 'a number')
    """
    if isinstance(value, dict):
        keys = [repr(key[:_MAX_CHARS]) for key in value]
        more = f" and {len(keys) - _MAX_KEYS:,} more" if len(keys) > _MAX_KEYS else ""
        return f"an object with the keys {', '.join(keys[:_MAX_KEYS]) or '(none)'}{more}"
    names = {str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
