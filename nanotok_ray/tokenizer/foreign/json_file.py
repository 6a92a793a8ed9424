"""JSON from somebody else: objects with no key twice, and where in them something is missing."""

import json
from collections.abc import Mapping
from typing import Any

from nanotok_ray.errors import TokenizerError

MAX_OPENED = 1 << 22
"""Lists and objects of a file: each takes 30 times its bytes in memory. Real ones have 450,000."""


def parsed_object(data: bytes, *, name: str) -> dict[str, Any]:
    """Give the object that a file holds.

    Raises:
        TokenizerError: It is no JSON in UTF-8, no object, too deep or of too many parts, or has a
            key twice; the message names the file and, where it can, the line.
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
    except ValueError as error:  # UTF-8, a key twice, a number of thousands of digits
        raise TokenizerError(f"{name}: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def part_of(value: Mapping[str, Any], key: str, kind: type, *, name: str) -> Any:  # noqa: ANN401
    """Give a value of a type.

    Raises:
        TokenizerError: It is missing or of another type.
    """
    found = value.get(key)
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise TokenizerError(
            f"{name}: {key!r} must be of type {kind.__name__}, not {type(found).__name__}"
        )
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} comes twice in an object")
    return value
