"""The fields of a document that is a JSON object.

Takes a JSON value; gives the object or a string it holds, or a SourceError. A field that is null is
as if it were absent: rows of a table spell absent ones so. Knows no dialect.
"""

from typing import Any

from nanotok_ray.dialects.json_value import kind_of
from nanotok_ray.errors import SourceError


def object_of(value: object) -> dict[str, Any]:
    """Give a value back if it is an object.

    Raises:
        SourceError: It is not.
    """
    if not isinstance(value, dict):
        raise SourceError(f"not an object: {kind_of(value)}")
    return value


def list_of(value: dict[str, Any], name: str) -> list[Any]:
    """Give the list that a field holds.

    Raises:
        SourceError: It is absent or no list.
    """
    _check_present(value, name)
    found = value[name]
    if not isinstance(found, list):
        raise SourceError(f"field is not an array: {name!r} is {kind_of(found)}")
    return found


def string_of(value: dict[str, Any], *names: str) -> str:
    """Give the string of the first of these fields that is there.

    >>> string_of({"response": None, "completion": "yes"}, "response", "completion")
    'yes'

    Raises:
        SourceError: None is there, or the first that is there is no string.
    """
    for name in names:
        found = optional_string_of(value, name)
        if found is not None:
            return found
    if any(name in value for name in names):
        _check_present(value, next(name for name in names if name in value))
    raise SourceError(f"field is missing: {' or '.join(map(repr, names))}")


def optional_string_of(value: dict[str, Any], name: str) -> str | None:
    """Give the string of a field, None if it is absent or null.

    Raises:
        SourceError: It is neither.
    """
    found = value.get(name)
    if found is None or isinstance(found, str):
        return found
    raise SourceError(f"field is not a string: {name!r} is {kind_of(found)}")


def _check_present(value: dict[str, Any], name: str) -> None:
    if name not in value:
        raise SourceError(f"field is missing: {name!r}")
    if value[name] is None:
        raise SourceError(f"field is null: {name!r}")
