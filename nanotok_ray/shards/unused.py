"""Counts of text that is not rendered, by key, in a record and in the manifest."""

from collections.abc import Iterable, Mapping
from typing import Final

from nanotok_ray.units import printable

MAX_KEYS: Final = 32
"""Maximum number of keys that are counted separately."""

OTHER_KEYS: Final = "(other keys)"
"""Stands for the keys beyond the maximum."""

_MAX_KEY_CHARS = 40


def count_unused(counts: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    r"""Add keys, each with a number of values; they are shown printable and short.

    The keys beyond the first `MAX_KEYS` are counted together.

    >>> counts = {"name": 1}
    >>> count_unused(counts, [("name", 2), ("a\n", 1)])
    >>> counts
    {'name': 3, 'a\\n': 1}
    """
    for key, number in more:
        name = key
        if name not in counts:
            name = printable(key[:_MAX_KEY_CHARS])
        if name not in counts and len(counts) >= MAX_KEYS:
            name = OTHER_KEYS
        counts[name] = counts.get(name, 0) + number


def most_frequent(counts: Mapping[str, int], *, others: str = OTHER_KEYS) -> dict[str, int]:
    """Return the keys with most values, in order of their names, and the others together.

    >>> most_frequent({"name": 2, "hint": 1})
    {'hint': 1, 'name': 2}
    """
    by_number = sorted(counts, key=lambda name: (name == others, -counts[name], name))
    frequent = {name: counts[name] for name in sorted(by_number[:MAX_KEYS])}
    left = sum(counts[name] for name in by_number[MAX_KEYS:])
    return frequent | {others: left + frequent.get(others, 0)} if left else frequent
