"""One line of JSON: its text or its conversation, or the reason why it has none."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.documents import to_utf8
from nanotok_ray.sources.stored import invalid_at

LONG_LINE_BYTES = 16 << 20
"""Longer lines are parsed with less memory."""

_MAX_LONG_STRINGS = 64
_ESCAPE = rb"\\(?:u[0-9a-fA-F]{4}|.)"  # begins with a byte that is found fast
_ESCAPES = re.compile(_ESCAPE + b"(?:" + _ESCAPE + b"){0,4095}", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SIMPLE = {
    rb"\n": b"\n",
    rb"\"": b'"',
    rb"\\": b"\\",
    rb"\t": b"\t",
    rb"\r\n": b"\r\n",
}  # for speed
_BACKSLASH = ord("\\")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A line in which each long string is replaced by a string of a unique length of `x`."""

    text: str
    strings: tuple[tuple[int, int], ...]
    """Start and end of the content of each long string in the line."""
    shortest: int
    """Long string n is replaced by `shortest + n` characters; no other string has that length."""

    def bounds_of(self, value: str) -> tuple[int, int] | None:
        """Return the position of a long string in the line, or None for another value."""
        return self.strings[len(value) - self.shortest] if len(value) >= self.shortest else None


def skeleton_of(line: bytes | bytearray, *, shortest: int | None = None) -> Skeleton:
    """Return the skeleton of a line of valid UTF-8.

    >>> skeleton_of(b'{"text": "hello"}', shortest=5).text
    '{"text": "xxxxx"}'
    """
    min_bytes = max(len(line) // _MAX_LONG_STRINGS, 1) if shortest is None else shortest
    strings: list[tuple[int, int]] = []
    reduced, copied, opening = bytearray(), 0, line.find(b'"')
    while opening >= 0:
        end = _closing_quote(line, opening + 1)
        if end - opening - 1 >= min_bytes:
            reduced += line[copied : opening + 1] + b"x" * (min_bytes + len(strings))
            strings.append((opening + 1, end))
            copied = end
        opening = line.find(b'"', end + 1) if end < len(line) else -1
    reduced += line[copied:]
    return Skeleton(text=reduced.decode(), strings=tuple(strings), shortest=min_bytes)


def decode_string(line: bytes | bytearray, start: int, end: int) -> bytearray:
    r"""Return the UTF-8 of the bytes between the quotes of a JSON string, as `to_utf8` does.

    Raises:
        json.JSONDecodeError: The string contains an invalid escape or a control character.

    >>> decode_string(rb'"a\u00e9"', 1, 8).decode()
    'aé'
    """
    if control := _CONTROL.search(line, start, end):
        raise json.JSONDecodeError("Invalid control character at", "", control.start())
    text, position, half = bytearray(), start, ""
    for run in _ESCAPES.finditer(line, start, end):
        if run.start() > position:
            text += to_utf8(half) + line[position : run.start()]
            half = ""
        position = run.end()
        if not half and (simple := _SIMPLE.get(run[0])):
            text += simple
            continue
        decoded = half + _decode_escapes(run)
        half = decoded[-1] if "\ud800" <= decoded[-1] < "\udc00" else ""
        text += to_utf8(decoded[: len(decoded) - len(half)])
    text += to_utf8(half)
    with memoryview(line) as view:
        text += view[position:end]
    return text


def _decode_escapes(run: "re.Match[bytes]") -> str:
    try:
        return str(json.loads(f'"{run[0].decode()}"'))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise json.JSONDecodeError("Invalid escape", "", run.start()) from None


def _closing_quote(line: bytes | bytearray, start: int) -> int:
    """Return the position of the quote that ends a string, or the length of the line."""
    end = line.find(b'"', start)
    while end >= 0:
        backslashes = end
        while backslashes > start and line[backslashes - 1] == _BACKSLASH:
            backslashes -= 1
        if (end - backslashes) % 2 == 0:
            return end
        end = line.find(b'"', end + 1)
    return len(line)


Raw = bytes | bytearray
"""A line or a document; a bytearray was joined from several blocks, and is not copied again."""

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    float: "a number",
}


class Integer(str):
    """The digits of an integer of any length; distinct from a string."""

    __slots__ = ()


_NAMES[Integer] = "a number"
_ID_DECODER = json.JSONDecoder(parse_int=Integer)
# Numbers are never used; parsed as floats, they may have any length, unlike as ints.
_DECODER = json.JSONDecoder(parse_int=float)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The reason why bytes are not a document: a kind and, after a colon, the details."""

    reason: str


def too_large(size: str, *, limit: int) -> str:
    """Return the reason for a document above the limit.

    >>> too_large("12 bytes", limit=10)
    'too large: 12 bytes, limits.max_document_bytes = 10'
    """
    return f"too large: {size}, limits.max_document_bytes = {limit}"


MAX_VALUES: Final = 1 << 22
"""Maximum number of values of a document of JSON, since each can take 150 bytes of memory."""


def too_many_values(document: Raw | pa.Buffer) -> str | None:
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


def check_text(line: Raw) -> Raw | Rejected:
    r"""Return bytes of valid UTF-8 unchanged, or the reason for others.

    >>> check_text(b"ab\xff")
    Rejected(reason='invalid UTF-8: at byte 2')
    """
    position = invalid_at(line)
    return line if position is None else Rejected(invalid_utf8(position))


def text_and_id(line: Raw, *, field: str, id_field: str | None) -> tuple[Raw | Rejected, bytes]:
    """Return a string field and the id as UTF-8; the id is empty if it is missing.

    >>> text_and_id(b'{"text": "hello", "id": 7}', field="text", id_field="id")
    (b'hello', b'7')
    """
    if len(line) > MAX_VALUES:  # nearly never
        if many := too_many_values(line):
            return Rejected(many), b""
        if len(line) > LONG_LINE_BYTES:
            return text_and_id_of_long(line, field=field, id_field=id_field)
    value = _parse(line, with_id=id_field is not None)
    if isinstance(value, Rejected):
        return value, b""
    text = _field_of(value, field)
    document = text if isinstance(text, Rejected) else to_utf8(text)
    return document, b"" if id_field is None else to_utf8(_id_of(value, id_field))


def text_and_id_of_long(
    line: Raw, *, field: str, id_field: str | None = None, shortest: int | None = None
) -> tuple[Raw | Rejected, bytes]:
    """Return the same as `text_and_id`, more slowly, with memory only for the line and its text.

    Strings of at least `shortest` bytes are long; None: a length that few strings have.
    """
    if isinstance(checked := check_text(line), Rejected):
        return checked, b""
    skeleton = skeleton_of(line, shortest=shortest)
    value = _parse_text(skeleton.text, with_id=id_field is not None, with_position=False)
    if isinstance(value, Rejected):
        return value, b""
    text, id_text = _field_of(value, field), _id_of(value, id_field)
    wanted = {
        string: None if isinstance(string, Integer) else skeleton.bounds_of(string)
        for string in (text, id_text)
        if isinstance(string, str)
    }
    decoded_strings: dict[tuple[int, int], bytearray] = {}
    for bounds in skeleton.strings:  # all: an invalid one makes the line invalid
        try:
            decoded = decode_string(line, *bounds)
        except json.JSONDecodeError as error:
            return Rejected(f"invalid JSON: {error.msg}"), b""
        if bounds in wanted.values():
            decoded_strings[bounds] = decoded

    def bytes_of(string: str) -> Raw:
        bounds = wanted[string]
        return to_utf8(string) if bounds is None else decoded_strings[bounds]

    return text if isinstance(text, Rejected) else bytes_of(text), bytes(bytes_of(id_text))


def _field_of(value: object, field: str) -> str | Rejected:
    """Return a string field of a JSON value, or the reason why there is none."""
    if type(value) is dict and type(text := value.get(field)) is str:
        return text  # nearly always
    if not isinstance(value, dict):
        return Rejected(f"not an object: {_name(value)}")
    if field not in value:
        return Rejected(f"field is missing: {field!r}")
    text = value[field]
    if text is None:
        return Rejected(f"field is null: {field!r}")
    if not isinstance(text, str) or isinstance(text, Integer):
        return Rejected(f"field is not a string: {field!r} is {_name(text)}")
    return text


def _id_of(value: object, field: str | None) -> str:
    identifier = value.get(field) if isinstance(value, dict) and field is not None else None
    return identifier if isinstance(identifier, str) else ""


def conversation_and_id(line: Raw, *, id_field: str | None) -> tuple[Raw | Rejected, bytes]:
    """Return a line that is a JSON object or array unchanged, and the id of an object.

    The chat package checks the content of conversations.
    """
    if many := too_many_values(line):
        return Rejected(many), b""
    value = _parse(line, with_id=id_field is not None)
    if isinstance(value, Rejected):
        return value, b""
    if not isinstance(value, dict | list):
        return Rejected(f"not an object or array: {_name(value)}"), b""
    return line, to_utf8(_id_of(value, id_field))


def _parse(line: Raw, *, with_id: bool) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return Rejected(invalid_utf8(error.start))
    return _parse_text(text, with_id=with_id)


def _parse_text(text: str, *, with_id: bool, with_position: bool = True) -> Any:  # noqa: ANN401
    decoder = _ID_DECODER if with_id else _DECODER
    try:
        value, end = decoder.raw_decode(text)  # like `decode` without surrounding space
        if end == len(text):
            return value
    except json.JSONDecodeError:
        pass  # `decode` raises the error, unless it was caused by that space
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        position = f" (char {error.pos})" if with_position else ""
        return Rejected(f"invalid JSON: {error.msg}{position}")
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")


def _name(value: object) -> str:
    return "null" if value is None else _NAMES[type(value)]


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
