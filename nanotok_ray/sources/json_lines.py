"""One line of a JSON lines file: its text, its conversation, or why it has none.

Takes the bytes of a line; gives the bytes of a document, or a `Rejected`. Does not know files.
"""

import json
from dataclasses import dataclass
from typing import Any

from nanotok_ray.documents.batch import to_utf8
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


class Integer(str):
    """An integer as it is written, of any length; no string."""

    __slots__ = ()


_NAMES[Integer] = "a number"
_ID_DECODER = json.JSONDecoder(parse_int=Integer)
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
    return text_and_id(line, field=field, id_field=None)[0]


def text_and_id(line: Raw, *, field: str, id_field: str | None) -> tuple[Raw | Rejected, bytes]:
    """Give the UTF-8 of a string field, and that of the id, empty if there is none.

    >>> text_and_id(b'{"text": "hello", "id": 7}', field="text", id_field="id")
    (b'hello', b'7')
    """
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
    """Give what `text_and_id` gives, slower, in memory for the line and its text alone.

    Strings of `shortest` bytes are long; None: chosen so that there are few of them.
    """
    if isinstance(checked := check_text(line), Rejected):
        return checked, b""
    skeleton = skeleton_of(line, shortest=shortest)
    value = _parse_text(skeleton.text, with_id=id_field is not None, tell_place=False)
    if isinstance(value, Rejected):
        return value, b""
    text, id_text = _field_of(value, field), _id_of(value, id_field)
    wanted = {
        each: None if isinstance(each, Integer) else skeleton.place_of(each)
        for each in (text, id_text)
        if isinstance(each, str)
    }
    found: dict[tuple[int, int], bytearray] = {}
    for place in skeleton.strings:  # all of them: one that is no JSON makes the line bad
        try:
            decoded = decode_string(line, *place)
        except json.JSONDecodeError as error:
            return Rejected(f"invalid JSON: {error.msg}"), b""
        if place in wanted.values():
            found[place] = decoded

    def bytes_of(each: str) -> Raw:
        place = wanted[each]
        return to_utf8(each) if place is None else found[place]

    return text if isinstance(text, Rejected) else bytes_of(text), bytes(bytes_of(id_text))


def _field_of(value: object, field: str) -> str | Rejected:
    """Give a string field of a JSON value, or why there is none."""
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
    found = value.get(field) if isinstance(value, dict) and field is not None else None
    return found if isinstance(found, str) else ""


def conversation_and_id(line: Raw, *, id_field: str | None) -> tuple[Raw | Rejected, bytes]:
    """Give back a line that is a JSON object or array, and the id of an object.

    What a conversation must hold is the chat's business.
    """
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


def _parse_text(text: str, *, with_id: bool, tell_place: bool = True) -> Any:  # noqa: ANN401
    decoder = _ID_DECODER if with_id else _DECODER
    try:
        value, end = decoder.raw_decode(text)  # what `decode` does, if there is no space around it
        if end == len(text):
            return value
    except json.JSONDecodeError:
        pass  # `decode` tells what is wrong, if not that space
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        place = f" (char {error.pos})" if tell_place else ""
        return Rejected(f"invalid JSON: {error.msg}{place}")
    except RecursionError:
        return Rejected("invalid JSON: nested too deeply")


def _name(value: object) -> str:
    return "null" if value is None else _NAMES[type(value)]
