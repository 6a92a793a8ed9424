"""One line of a JSON lines file: its text, its conversation, or why it has none.

Takes the bytes of a line; gives the bytes of a document, or a `Rejected`. Does not know files.
"""

import json
from dataclasses import dataclass
from typing import Any

from nanotok_ray.documents import to_utf8
from nanotok_ray.sources.long_json import LONG_LINE_BYTES, decode_string, skeleton_of
from nanotok_ray.sources.utf8 import invalid_at

Raw = bytes | bytearray
"""A line or document; one that was put together from many blocks is not copied once more."""

_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    float: "a number",
}

# Numbers are never looked at; as floats they parse whatever their length, as ints they do not.
_DECODER = json.JSONDecoder(parse_int=float)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why bytes are not a document: the kind, and after a colon what is particular to them."""

    reason: str


def too_large(size: str, *, limit: int) -> str:
    """Give the reason of a document above the limit.

    >>> too_large("12 bytes", limit=10)
    'too large: 12 bytes, limits.max_document_bytes = 10'
    """
    return f"too large: {size}, limits.max_document_bytes = {limit}"


def invalid_utf8(place: int) -> str:
    """Give the reason of a document whose byte `place` is not UTF-8."""
    return f"invalid UTF-8: at byte {place}"


def check_text(line: Raw) -> Raw | Rejected:
    r"""Give back bytes that are UTF-8.

    >>> check_text(b"ab\xff")
    Rejected(reason='invalid UTF-8: at byte 2')
    """
    place = invalid_at(line)
    return line if place is None else Rejected(invalid_utf8(place))


def text_of(line: Raw, *, field: str) -> Raw | Rejected:
    """Give the UTF-8 of one field of a JSON object.

    >>> text_of(b'{"text": "hello"}', field="text")
    b'hello'
    >>> text_of(b'{"text": null}', field="text")
    Rejected(reason="field is null: 'text'")
    """
    if len(line) > LONG_LINE_BYTES:
        return text_of_long(line, field=field)
    value = _parse(line)
    if isinstance(value, Rejected):
        return value
    text = _field_of(value, field)
    return text if isinstance(text, Rejected) else to_utf8(text)


def text_of_long(line: Raw, *, field: str, shortest: int | None = None) -> Raw | Rejected:
    """Give what `text_of` gives, slower, in memory for the line and its text alone.

    Strings of `shortest` bytes are long; None: chosen so that there are few of them.
    """
    if isinstance(checked := check_text(line), Rejected):
        return checked
    skeleton = skeleton_of(line, shortest=shortest)
    value = _parse_text(skeleton.text, tell_place=False)
    if isinstance(value, Rejected):
        return value
    text = _field_of(value, field)
    place = None if isinstance(text, Rejected) else skeleton.place_of(text)
    found: Raw | Rejected = to_utf8(text) if isinstance(text, str) and place is None else b""
    for start, end in skeleton.strings:  # all of them: one that is no JSON makes the line bad
        try:
            decoded = decode_string(line, start, end)
        except json.JSONDecodeError as error:
            return Rejected(f"invalid JSON: {error.msg}")
        found = decoded if place == (start, end) else found
    return text if isinstance(text, Rejected) else found


def _field_of(value: object, field: str) -> str | Rejected:
    """Give a string field of a JSON value, or why there is none."""
    if not isinstance(value, dict):
        return Rejected(f"not an object: {_name(value)}")
    if field not in value:
        return Rejected(f"field is missing: {field!r}")
    text = value[field]
    if text is None:
        return Rejected(f"field is null: {field!r}")
    if not isinstance(text, str):
        return Rejected(f"field is not a string: {field!r} is {_name(text)}")
    return text


def check_conversation(line: Raw) -> Raw | Rejected:
    """Give back a line that is a JSON object or array; what it must hold is the chat's business."""
    value = _parse(line)
    if isinstance(value, Rejected):
        return value
    if not isinstance(value, dict | list):
        return Rejected(f"not an object or array: {_name(value)}")
    return line


def _parse(line: Raw) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return Rejected(invalid_utf8(error.start))
    return _parse_text(text)


def _parse_text(text: str, *, tell_place: bool = True) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        place = f" (char {error.pos})" if tell_place else ""
        return Rejected(f"invalid JSON: {error.msg}{place}")
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")


def _name(value: object) -> str:
    return "null" if value is None else _NAMES[type(value)]
