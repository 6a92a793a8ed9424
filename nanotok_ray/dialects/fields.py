"""JSON documents: their values, their fields, and the reason why one is malformed."""

import json
from typing import Any, Final

from nanotok_ray.errors import SourceError

JsonObject = dict[str, Any]
"""An object of a user's JSON: a document, a message or a row, with values of any type."""

MAX_QUOTED_CHARS = 200
"""Maximum number of characters of a document's own text in a reason."""

_MAX_DIGITS = 18
_MAX_KEYS, _MAX_KEY_CHARS = 5, 40


def _integer(digits: str) -> int | float:
    """Return an integer, or a float for a long integer, which Python refuses to parse as an int."""
    return int(digits) if len(digits.lstrip("-")) <= _MAX_DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)
_EXACT_DECODER = json.JSONDecoder()


def value_of(document: bytes | bytearray, *, exact: bool = False) -> Any:  # noqa: ANN401 - of JSON
    """Return the value of a document; `exact` keeps integers of more than 18 digits.

    >>> value_of(b'{"prompt": "hi", "tokens": [3]}')
    {'prompt': 'hi', 'tokens': [3]}

    Raises:
        SourceError: The document is not UTF-8, or not JSON.
    """
    try:
        text = document.decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"invalid UTF-8: at byte {error.start}") from error
    return value_of_text(text, exact=exact)


def value_of_text(text: str, *, exact: bool = False) -> Any:  # noqa: ANN401 - of JSON
    """Return the value of a JSON text, as `value_of` does.

    Raises:
        SourceError: The text is not JSON.
    """
    try:
        return (_EXACT_DECODER if exact else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"invalid JSON: {error.msg} (char {error.pos})") from error
    except ValueError as error:
        raise SourceError(f"invalid JSON: {error}") from error
    except RecursionError as error:
        raise SourceError("invalid JSON: nested too deeply") from error


def kind_of(value: object) -> str:
    """Return the type of a JSON value in words, without its text, which can be long or deep.

    >>> kind_of([1]), kind_of({"id": 7}), kind_of(None)
    ('an array', "an object with the keys 'id'", 'null')
    """
    if isinstance(value, dict):
        keys = [repr(name[:_MAX_KEY_CHARS]) for name in list(value)[:_MAX_KEYS]]
        return f"an object with the keys {', '.join(keys) or '(none)'}"
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def quoted(value: object) -> str:
    """Return a string in quotes, truncated if it is long, or the type of any other value.

    >>> quoted("tool"), quoted(7)
    ("'tool'", 'a number')
    """
    if not isinstance(value, str):
        return kind_of(value)
    cut = "..." if len(value) > MAX_QUOTED_CHARS else ""
    return f"{value[:MAX_QUOTED_CHARS]!r}{cut}"


def object_of(value: object) -> JsonObject:
    """Return the value unchanged if it is an object.

    Raises:
        SourceError: The value is not an object.
    """
    if not isinstance(value, dict):
        raise SourceError(f"not an object: {kind_of(value)}")
    return value


def list_of(value: JsonObject, name: str) -> list[Any]:
    """Return the list that a field holds.

    Raises:
        SourceError: The field is absent or not a list.
    """
    _check_present(value, name)
    field = value[name]
    if not isinstance(field, list):
        raise SourceError(f"field is not an array: {name!r} is {kind_of(field)}")
    return field


def string_of(value: JsonObject, *names: str) -> str:
    """Return the string of the first of these fields that is present.

    >>> string_of({"response": None, "completion": "yes"}, "response", "completion")
    'yes'

    Raises:
        SourceError: No field is present, or the first present field is not a string.
    """
    for name in names:
        field = optional_string_of(value, name)
        if field is not None:
            return field
    if any(name in value for name in names):
        _check_present(value, next(name for name in names if name in value))
    raise SourceError(f"field is missing: {' or '.join(map(repr, names))}")


def optional_string_of(value: JsonObject, name: str) -> str | None:
    """Return the string of a field, or None if it is absent or null.

    Raises:
        SourceError: The field has a value of another type.
    """
    field = value.get(name)
    if field is None or isinstance(field, str):
        return field
    raise SourceError(f"field is not a string: {name!r} is {kind_of(field)}")


def _check_present(value: JsonObject, name: str) -> None:
    if name not in value:
        raise SourceError(f"field is missing: {name!r}")
    if value[name] is None:
        raise SourceError(f"field is null: {name!r}")


MALFORMED: Final = (AssertionError, LookupError, TypeError, ValueError, RecursionError)
"""The errors that a malformed document raises; `reason_of` returns their messages. RecursionError:
a deeply nested value in the place of a string cannot be quoted."""

_TAIL_CHARS = 40


def reason_of(error: BaseException) -> str:
    r"""Return the message of an error of a malformed document, without long parts of the document.

    Long text is cut in the middle, so that the end, which names what was expected, remains. Line
    breaks, control characters and lone surrogates are escaped.

    >>> reason_of(KeyError("text"))
    "KeyError: 'text'"
    >>> len(reason_of(AssertionError("Message 0 is from " + 1000 * "x"))) < 300
    True
    >>> print(reason_of(AssertionError("Message 0 is from \ud800\n but should be from user")))
    Message 0 is from \ud800\n but should be from user
    """
    if isinstance(error, RecursionError):
        return "nested too deeply: a value where a string belongs"
    if isinstance(error, SourceError):
        return str(error)
    text = str(error)
    if type(error) not in (AssertionError, ValueError):
        text = f"{type(error).__name__}: {text}"
    if len(text) > MAX_QUOTED_CHARS + _TAIL_CHARS:
        text = f"{text[:MAX_QUOTED_CHARS]}...{text[-_TAIL_CHARS:]}"
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
