"""One line of a JSON lines file: its text, its conversation, or why it has none.

Takes the bytes of a line; gives the bytes of a document, or a `Rejected`. Does not know files.
"""

import json
from dataclasses import dataclass
from typing import Any

from nanotok_ray.documents import to_utf8

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


def check_text(line: bytes) -> bytes | Rejected:
    r"""Give back bytes that are UTF-8.

    >>> check_text(b"ab\xff")
    Rejected(reason='invalid UTF-8: at byte 2')
    """
    text = _decode(line)
    return text if isinstance(text, Rejected) else line


def text_of(line: bytes, *, field: str) -> bytes | Rejected:
    """Give the UTF-8 of one field of a JSON object.

    >>> text_of(b'{"text": "hello"}', field="text")
    b'hello'
    >>> text_of(b'{"text": null}', field="text")
    Rejected(reason="field is null: 'text'")
    """
    value = _parse(line)
    if isinstance(value, Rejected):
        return value
    if not isinstance(value, dict):
        return Rejected(f"not an object: {_name(value)}")
    if field not in value:
        return Rejected(f"field is missing: {field!r}")
    text = value[field]
    if text is None:
        return Rejected(f"field is null: {field!r}")
    if not isinstance(text, str):
        return Rejected(f"field is not a string: {field!r} is {_name(text)}")
    return to_utf8(text)


def check_conversation(line: bytes) -> bytes | Rejected:
    """Give back a line that is a JSON object or array; what it must hold is the chat's business."""
    value = _parse(line)
    if isinstance(value, Rejected):
        return value
    if not isinstance(value, dict | list):
        return Rejected(f"not an object or array: {_name(value)}")
    return line


def _decode(line: bytes) -> str | Rejected:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return Rejected(f"invalid UTF-8: at byte {error.start}")


def _parse(line: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    text = _decode(line)
    if isinstance(text, Rejected):
        return text
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return Rejected(f"invalid JSON: {error.msg} (char {error.pos})")
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")


def _name(value: object) -> str:
    return "null" if value is None else _NAMES[type(value)]
