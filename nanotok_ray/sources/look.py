"""A look into one file before anything is planned: can it be read, and how is it to be?

Takes a file and its source of the recipe. Of parquet the footer is read, of others the first bytes;
of conversations the first document, unless the recipe says their dialect. Does not know other
files, splits or slices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from nanotok_ray.dialects.detect import detect
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources.files import SourceFile
from nanotok_ray.sources.first_bytes import FIRST_BYTES, is_compressed
from nanotok_ray.sources.first_document import FirstDocument, first_document
from nanotok_ray.sources.parquet_column import read_footer
from nanotok_ray.sources.parquet_rows import read_rows_footer
from nanotok_ray.sources.value_shape import Shape
from nanotok_ray.storage import read_start, unreadable

FALLBACK_DIALECT: Final = "messages"
"""Of a file whose first document cannot be seen."""

_LOOK_BYTES = (1 << 16, 1 << 20)  # nearly always the first is enough
_SHAPES: Final[Mapping[Shape, str]] = {
    "array": "one JSON array",
    "spread": "JSON spread over several lines (pretty-printed)",
}
_SHOWN_KEYS = 5
_SHOWN_CHARS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One file after a look into it: what the file says of itself, or why it cannot be used."""

    file: SourceFile
    problem: str | None = None
    oddity: str | None = None
    """What it is not, though its name says so."""
    is_guessed: bool = False
    """Whether its dialect is `FALLBACK_DIALECT` for want of a document."""


def look(file: SourceFile, *, source: SourceRecipe) -> Look:
    """Open a file and see what is needed to plan with it.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    try:
        if file.format == "parquet":
            return _footer(file, source=source)
        is_sought = source.kind != "text" and source.dialect is None
        size = _LOOK_BYTES[0] if is_sought else FIRST_BYTES
        start = read_start(file.url, size) if file.size else b""
        first = start[:FIRST_BYTES]
        if first and file.compression and not is_compressed(first, file.compression):
            told = f"{file.path} is not {file.compression} (it begins {first!r})"
            return Look(file=_with_dialect(file, source=source), oddity=told)
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
        return Look(file=replace(file, layout=footer.layout, footer_sha256=footer.sha256))
    footer, dialect = read_rows_footer(
        file.url, kind=source.kind, dialect=source.dialect, id_column=source.id_column
    )
    return Look(
        file=replace(file, layout=footer.layout, footer_sha256=footer.sha256, dialect=dialect)
    )


def _with_dialect(file: SourceFile, *, source: SourceRecipe) -> SourceFile:
    """Give a file the dialect of the recipe, or that of files without documents."""
    if source.kind == "text":
        return file
    return replace(file, dialect=source.dialect or FALLBACK_DIALECT)


def _seen(file: SourceFile, start: bytes, *, source: SourceRecipe) -> Look:
    """See the dialect of a file of JSON lines from its first document.

    Raises:
        SourceError: none is known for it.
    """
    found = _first_document(file, start)
    if not found.is_there and len(start) < min(file.size, _LOOK_BYTES[1]):
        found = _first_document(file, read_start(file.url, _LOOK_BYTES[1]))
    if not found.is_there:
        return Look(file=_with_dialect(file, source=source), is_guessed=not found.is_blank)
    dialect = detect(found.value, kind=source.kind)
    if dialect is None:
        if found.shape is not None:
            raise SourceError(
                f"{file.url} is not JSON lines but {_SHAPES[found.shape]}; write one document a "
                "line, or leave the file out"
            )
        has_text = source.kind == "chat" and isinstance(found.value, dict) and "text" in found.value
        hint = 'set kind = "text" if the documents are texts, or ' if has_text else ""
        raise SourceError(
            f"{file.url}: its first document is {_told(found.value)}: no dialect of {source.kind} "
            f"is known for it; {hint}set dialect, or write messages"
        )
    return Look(file=replace(file, dialect=dialect))


def _first_document(file: SourceFile, start: bytes) -> FirstDocument:
    return first_document(
        start,
        compression=file.compression,
        most=_LOOK_BYTES[1],
        is_whole=len(start) >= file.size,
    )


def _told(value: object) -> str:
    """Say what a JSON value is.

    >>> _told({"a": 1, "b": 2}), _told(3.0)
    ("an object with the keys 'a', 'b'", 'a number')
    """
    if isinstance(value, dict):
        keys = [repr(key[:_SHOWN_CHARS]) for key in value]
        more = f" and {len(keys) - _SHOWN_KEYS:,} more" if len(keys) > _SHOWN_KEYS else ""
        return f"an object with the keys {', '.join(keys[:_SHOWN_KEYS]) or '(none)'}{more}"
    names = {str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
