"""Is a parsed JSON value of the shape that its file must have? Whoever made the file.

Takes values and shapes: a number, a text, a list, a dictionary with these keys at least. Says where
a value is not what it must be. Knows no file of this project.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from nanotok_ray.errors import CorruptOutputError

Check = Callable[[Any], bool]
Shape = Check | list[Any] | dict[str, Any]
"""A check; a list of things of one shape; a dictionary with these keys, and perhaps others."""

_SHOWN_CHARS = 40


def number(value: object) -> TypeGuard[int]:
    """Tell whether it is a whole number from 0 on that fits 63 bits.

    >>> number(3), number(True), number(-1), number(1 << 63), number(2.0)
    (True, False, False, False, False)
    """
    return type(value) is int and 0 <= value < 1 << 63


def text(value: object) -> bool:
    """Tell whether it is a text."""
    return type(value) is str


def hexadecimal(value: object) -> bool:
    """Tell whether it is a sha256 in hex."""
    return type(value) is str and len(value) == 64 and set(value) <= set("0123456789abcdef")  # noqa: PLR2004 - 4 bits each


def optional(check: Check) -> Check:
    """Allow null too."""
    return lambda value: value is None or check(value)


def one_of(*values: object) -> Check:
    """Allow these values alone."""
    return lambda value: any(type(value) is type(own) and value == own for own in values)


def numbers_by_name(value: object) -> bool:
    """Tell whether it is a dictionary of numbers."""
    return isinstance(value, dict) and all(map(number, value.values()))


def shown(value: object) -> str:
    """Give a value as an error may show it: a long number or a deep list is not spelled out.

    >>> shown("nanotok"), shown(-1), shown(10**5000), shown([[]])
    ("'nanotok'", '-1', 'int', 'list')
    """
    short = type(value) is int and abs(value) < 1 << 63
    known = isinstance(value, str | bool | float) or value is None or short
    return repr(value)[:_SHOWN_CHARS] if known else type(value).__name__


def check_shape(value: object, shape: Shape, *, name: str, at: str = "") -> None:
    """Refuse a value that is not of a shape; `name` is what errors call its file.

    >>> check_shape({"rows": [1, 2], "more": None}, {"rows": [number]}, name="a.json")

    Raises:
        CorruptOutputError: naming the file, the place in it and what stands there.
    """
    match shape:
        case dict():
            _check_dictionary(value, shape, name=name, at=at)
        case list():
            if not isinstance(value, list):
                raise _wrong(value, name=name, at=at)
            for place, each in enumerate(value):
                check_shape(each, shape[0], name=name, at=f"{at}[{place}]")
        case _:
            if not shape(value):
                raise _wrong(value, name=name, at=at)


def _check_dictionary(value: object, shape: Mapping[str, Shape], *, name: str, at: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, name=name, at=at)
    for key, own in shape.items():
        if key not in value:
            raise CorruptOutputError(f"{name} lacks the field {at}.{key}".replace(" .", " "))
        check_shape(value[key], own, name=name, at=f"{at}.{key}" if at else key)


def _wrong(value: object, *, name: str, at: str) -> CorruptOutputError:
    return CorruptOutputError(f"{name}: {at or 'the whole'} is {shown(value)}, which cannot be")
