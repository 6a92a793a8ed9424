"""Lines of text and of JSON: their documents and ids, or the reasons why they have none."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.documents import Documents, to_utf8
from nanotok_ray.sources.stored import invalid_at

LONG_LINE_BYTES: Final = 16 << 20
"""Why a longer line is not JSON is said by the core: Python needs far more memory for it."""

MAX_VALUES: Final = 1 << 22
"""Maximum number of values of a document of JSON, since each can take 150 bytes of memory."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why bytes are not a document: a kind and, after a colon, the details."""

    reason: str


Others = dict[int, tuple[bytes | Rejected, bytes]]
"""By the index of a line: its document or the reason why it has none, and its id."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReadLines:
    """The documents of lines."""

    documents: Documents
    ids: Documents | None = None
    """The ids, empty for a line without one; None if no ids are read."""
    others: Others
    """The lines for which the above is not valid."""


def read_text(lines: Documents) -> ReadLines:
    r"""Return lines of text unchanged; a line that is not UTF-8 is rejected.

    >>> read_text(Documents.from_bytes([b"a", b"b\xff"])).others
    {1: (Rejected(reason='invalid UTF-8: at byte 1'), b'')}
    """
    return ReadLines(documents=lines, others=_not_utf8(lines))


def read_json(lines: Documents, *, field: str | None, id_field: str | None) -> ReadLines:
    """Return a string field of each line of JSON as UTF-8; lines can end with a line break.

    Without a field, the documents are the lines, which are objects or arrays; with neither field
    nor id, they are not parsed. The chat package checks their content.

    >>> lines = Documents.from_bytes([b'{"text": "hello", "id": 7}', b"[]"])
    >>> read = read_json(lines, field="text", id_field="id")
    >>> list(read.documents), list(read.ids), read.others
    ([b'hello', b''], [b'7', b''], {1: (Rejected(reason='not an object: an array'), b'')})
    """
    others = _with_many_values(lines)
    if field is None and id_field is None:
        return ReadLines(documents=lines, others=_not_utf8(lines) | others)
    by_plain = partial(by_python, field=field, id_field=id_field)
    try:
        texts, text_offsets, ids, id_offsets, problems = _core.json_rows(
            lines.data, lines.offsets, field=field, id_field=id_field
        )
    except UnicodeEncodeError:  # the name of a field has a lone surrogate
        every = {n: by_plain(_without_break(_line_of(lines, n))) for n in range(len(lines))}
        return ReadLines(documents=lines, others=every | others)
    documents = lines if field is None else Documents(data=texts, offsets=text_offsets)
    document_ids = None if id_field is None else Documents(data=ids, offsets=id_offsets)
    for index, problem, detail in problems:
        if index in others:
            continue
        line = _line_of(lines, index)
        if problem == "nested" or (problem == "json" and len(line) <= LONG_LINE_BYTES):
            others[index] = by_plain(_without_break(line))
        else:
            id_text = b"" if document_ids is None else document_ids[index]
            others[index] = _rejected(problem, detail, field=field), id_text
    return ReadLines(documents=documents, ids=document_ids, others=others)


def _line_of(lines: Documents, index: int) -> memoryview:
    """Return a line, which is not copied."""
    return lines.data[lines.offsets[index] : lines.offsets[index + 1]].data


def _without_break(line: memoryview) -> bytes:
    content, line_break, _ = bytes(line).partition(b"\n")
    return content.removesuffix(b"\r") if line_break else content


def _not_utf8(lines: Documents) -> Others:
    if _core.is_utf8(lines.data, lines.offsets):  # nearly always
        return {}
    positions = [invalid_at(_line_of(lines, index)) for index in range(len(lines))]
    return {
        index: (Rejected(invalid_utf8(position)), b"")
        for index, position in enumerate(positions)
        if position is not None
    }


def _with_many_values(lines: Documents) -> Others:
    long = np.flatnonzero(np.diff(lines.offsets) > MAX_VALUES).tolist()  # nearly never any
    reasons = [too_many_values(_line_of(lines, index)) for index in long]
    return {
        index: (Rejected(reason), b"")
        for index, reason in zip(long, reasons, strict=True)
        if reason is not None
    }


class Integer(str):
    """The digits of an integer of any length; distinct from a string."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=Integer)


def by_python(
    line: bytes, *, field: str | None, id_field: str | None
) -> tuple[bytes | Rejected, bytes]:
    """Return document and id of a line of JSON by Python; without a field, the line unchanged.

    It reads what is too deeply nested for the core, and says why a line is not JSON.

    >>> by_python(b'{"text": "hello", "id": 7, "n": NaN}', field="text", id_field="id")
    (b'hello', b'7')
    """
    try:
        value = _DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        return Rejected(invalid_utf8(error.start)), b""
    except json.JSONDecodeError as error:
        return Rejected(f"invalid JSON: {error.msg} (char {error.pos})"), b""
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply"), b""
    identifier = value.get(id_field) if isinstance(value, dict) else None
    id_text = to_utf8(identifier) if isinstance(identifier, str) else b""
    is_whole = field is None and isinstance(value, dict | list)
    return line if is_whole else _text_in(value, field), id_text


def _text_in(value: object, field: str | None) -> bytes | Rejected:
    if field is None or not isinstance(value, dict):
        return _not_an_object(_kind_of(value), field=field)
    if field not in value:
        return Rejected(f"field is missing: {field!r}")
    text = value[field]
    return to_utf8(text) if type(text) is str else _not_text(_kind_of(text), field)


def _rejected(problem: str, detail: int, *, field: str | None) -> Rejected:
    """Return the reason for a problem of the core."""
    if problem == "utf8":
        return Rejected(invalid_utf8(detail))
    if problem == "json":
        return Rejected(f"invalid JSON: at byte {detail}")
    if problem == "missing":
        return Rejected(f"field is missing: {field!r}")
    kind = _KINDS.get(chr(detail), "a number")
    return _not_text(kind, field) if problem == "field kind" else _not_an_object(kind, field=field)


_KINDS = {"{": "an object", "[": "an array", '"': "a string", "n": "null"}
_KINDS |= dict.fromkeys("tf", "a boolean")
"""The kinds of values by their first characters; others are numbers."""
_FIRST = {dict: "{", list: "[", str: '"', bool: "t", type(None): "n"}


def _kind_of(value: object) -> str:
    return _KINDS.get(_FIRST.get(type(value), "0"), "a number")


def _not_an_object(kind: str, *, field: str | None) -> Rejected:
    if field is None:
        return Rejected(f"not an object or array: {kind}")
    return Rejected(f"not an object: {kind}")


def _not_text(kind: str, field: str | None) -> Rejected:
    if kind == "null":
        return Rejected(f"field is null: {field!r}")
    return Rejected(f"field is not a string: {field!r} is {kind}")


def too_large(size: str, *, limit: int) -> str:
    """Return the reason for a document above the limit.

    >>> too_large("12 bytes", limit=10)
    'too large: 12 bytes, limits.max_document_bytes = 10'
    """
    return f"too large: {size}, limits.max_document_bytes = {limit}"


def too_many_values(document: bytes | memoryview | pa.Buffer) -> str | None:
    """Return the reason for a document of JSON with more than `MAX_VALUES` values, or None.

    >>> too_many_values(b'{"text": "hello"}') is None
    True
    """
    if len(document) <= MAX_VALUES:  # nearly always
        return None
    values = _core.num_json_values(np.frombuffer(document, dtype=np.uint8))
    if values <= MAX_VALUES:
        return None
    return f"too many values: up to {values:,}, a document of JSON may have {MAX_VALUES:,}"


def invalid_utf8(position: int) -> str:
    """Return the reason for a document whose byte at `position` is not UTF-8."""
    return f"invalid UTF-8: at byte {position}"


Shape = Literal["array", "spread"]
"""`array`: the file is one JSON array of documents. `spread`: its first value is on several lines,
like pretty-printed JSON.
"""

BOM: Final = b"\xef\xbb\xbf"
_LITERAL_CHARS = 10
"""If the text ends within a literal or an escape, the error is a few characters before the end."""


def shape_of(start: bytes, *, is_complete: bool) -> Shape | None:
    r"""Return the shape of a file whose first value is not on one line, otherwise None.

    >>> shape_of(b'[{"text": "a"},\n {"text": "b"}]\n', is_complete=True)
    'array'
    >>> shape_of(b'{\n  "text": "a"\n}\n{\n', is_complete=False)
    'spread'
    >>> shape_of(b'{"text": "a"}\n{"text": "b"}\n', is_complete=True) is None
    True
    """
    text = start.removeprefix(BOM).decode(errors="replace").lstrip()
    if text[:1] not in {"{", "["}:
        return None
    try:
        end = _end_of_first(text, is_complete=is_complete)
        if end is None:
            return None
        if not text[end:].strip() and _holds_documents(text):
            return "array"
    except RecursionError:
        return None
    return "spread" if "\n" in text[:end] else None


def _end_of_first(text: str, *, is_complete: bool) -> int | None:
    """Return the end of the first value, at least the length of a cut text; None: not JSON."""
    try:
        return _DECODER.raw_decode(text)[1]
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(text.rstrip()) - _LITERAL_CHARS
        is_cut |= error.msg.startswith("Unterminated string")
        return len(text) if is_cut and not is_complete else None


def _holds_documents(text: str) -> bool:
    """Return whether a text is an array whose first element is not a message of a conversation."""
    inside = text[1:].lstrip()
    if text[0] != "[" or inside[:1] == "]":
        return False
    try:
        first, _ = _DECODER.raw_decode(inside)
    except json.JSONDecodeError:
        return False
    return not (isinstance(first, dict) and "role" in first)
