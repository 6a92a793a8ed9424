"""The JSON of a document, and how its values are named and quoted.

Takes the bytes of a document; gives the value they spell, or a SourceError. Knows no dialect.
"""

import json
from typing import Any

from nanotok_ray.errors import SourceError

MAX_QUOTED_CHARS = 200
"""As much of a document's own text stands in a reason."""

_MAX_DIGITS = 18
_MAX_KEYS, _MAX_KEY_CHARS = 5, 40


def _integer(digits: str) -> int | float:
    """Give an integer; a long one as a float, since Python refuses to read it as an int."""
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)


def value_of(document: bytes | bytearray) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Give the value of a document.

    >>> value_of(b'{"prompt": "hi", "tokens": [3]}')
    {'prompt': 'hi', 'tokens': [3]}

    Raises:
        SourceError: It is not UTF-8, or not JSON.
    """
    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"invalid UTF-8: at byte {error.start}") from error
    return value_of_text(text)


def value_of_text(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Give the value that a text spells.

    Raises:
        SourceError: The text is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"invalid JSON: {error.msg} (char {error.pos})") from error
    except RecursionError as error:
        raise SourceError("invalid JSON: nested too deeply") from error


def kind_of(value: object) -> str:
    """Say what a JSON value is without repeating it: it may be long, or nested deeply.

    >>> kind_of([1]), kind_of({"id": 7}), kind_of(None)
    ('an array', "an object with the keys 'id'", 'null')
    """
    if isinstance(value, dict):
        keys = [repr(name[:_MAX_KEY_CHARS]) for name in list(value)[:_MAX_KEYS]]
        return f"an object with the keys {', '.join(keys) or '(none)'}"
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def quoted(value: object) -> str:
    """Give a string in quotes, cut if it is long; of any other value what it is.

    >>> quoted("tool"), quoted(7)
    ("'tool'", 'a number')
    """
    if not isinstance(value, str):
        return kind_of(value)
    cut = "..." if len(value) > MAX_QUOTED_CHARS else ""
    return f"{value[:MAX_QUOTED_CHARS]!r}{cut}"
