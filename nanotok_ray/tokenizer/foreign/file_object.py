"""Objects of JSON files of other tools, and their values of required types."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nanotok_ray.errors import TokenizerError

MAX_OPENED = 1 << 22
"""Limit of lists and objects of a file: each takes 30 times its size in memory. Known files have
at most 450,000.
"""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileObject:
    """A JSON object, whose values can have any type."""

    values: Mapping[str, Any]
    name: str
    """The file and the position of the object in it, for messages."""

    def get(self, key: str) -> Any:  # noqa: ANN401 - of any type
        """Return a value, or None if it is missing."""
        return self.values.get(key)

    def part(self, key: str, kind: type[_T]) -> _T:
        """Return a value of the required type.

        Raises:
            TokenizerError: The value is missing or of another type.
        """
        item = self.values.get(key)
        if not isinstance(item, kind) or (kind is int and isinstance(item, bool)):
            raise TokenizerError(
                f"{self.name}: {key!r} must be of type {kind.__name__}, not {type(item).__name__}"
            )
        return item

    def inner(self, key: str) -> "FileObject":
        """Return the object under a key.

        Raises:
            TokenizerError: The value is missing or no object.
        """
        return FileObject(self.part(key, dict), f"{self.name}, {key}")


def parsed_object(data: bytes, *, name: str) -> FileObject:
    """Return the JSON object of a file.

    Raises:
        TokenizerError: The file is not a JSON object in UTF-8, is nested too deeply, has too many
            values, or contains a key twice; the message names the file and, if possible, the line.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened > MAX_OPENED:
        raise TokenizerError(
            f"{name} has {opened:,} lists and objects, more than {MAX_OPENED:,} are refused"
        )
    try:
        value = json.loads(data.decode(), object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise TokenizerError(f"{name}, line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise TokenizerError(f"{name}: its values are nested too deep") from error
    except ValueError as error:  # invalid UTF-8, a duplicate key, a number of thousands of digits
        raise TokenizerError(f"{name}: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{name} holds a {type(value).__name__}, not an object")
    return FileObject(value, name)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} comes twice in an object")
    return value
