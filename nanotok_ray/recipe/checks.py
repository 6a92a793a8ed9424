"""Checks that several tables of a recipe share, and the mark of a derived default.

Each check takes the key and a value; raises the error that names both. Does not know the tables.
"""

from typing import Any

from nanotok_ray.errors import RecipeError

DERIVED: Any = None
"""Stands where the default depends on the other fields; `__post_init__` puts the value there."""


def check_choice(key: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise RecipeError(f"{key} = {value!r} is none of {', '.join(map(repr, choices))}")


def check_range(key: str, value: int, *, least: int, most: int) -> None:
    """Refuse a number below `least` or above `most`."""
    if not least <= value <= most:
        raise RecipeError(f"{key} = {value} is outside {least} to {most}")


def check_distinct(key: str, names: tuple[str, ...]) -> None:
    """Refuse an empty name and a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise RecipeError(f"{key} holds an empty name; remove it")
        if name in seen:
            raise RecipeError(f"{key} holds {name!r} twice; each name may be used once")
        seen.add(name)
