"""Overrides from the command line: `output.path=/x`, `source.web.paths=["a", "b"]`.

Takes the tables of a parsed recipe and the texts given to `--set`; changes the tables. Does not
know which keys exist: what it sets is checked afterwards like everything else.
"""

import difflib
import tomllib
from typing import Any

from nanotok_ray.errors import RecipeError


def apply_override(tables: dict[str, Any], override: str) -> None:
    """Set one key of `tables` to a TOML value, or to a bare string where it is not TOML.

    Raises:
        RecipeError: the override has no `=` or no table, or names a source that is not there.

    >>> tables = {"limits": {}}
    >>> apply_override(tables, "limits.slice_bytes=256MiB")
    >>> tables
    {'limits': {'slice_bytes': '256MiB'}}
    """
    path, equals, text = override.partition("=")
    table, dot, key = path.strip().rpartition(".")
    if not (equals and dot and table and key):
        raise RecipeError(
            f"override {override!r} is not of the form TABLE.KEY=VALUE; "
            "write for instance output.path=/data/out or source.NAME.split=train"
        )
    _table(tables, table, override=override)[key] = _value(text.strip())


def _table(tables: dict[str, Any], path: str, *, override: str) -> dict[str, Any]:
    first, _, name = path.partition(".")
    if first != "source":
        table = tables.setdefault(path, {})
        if not isinstance(table, dict):
            raise RecipeError(f"override {override!r}: {path} is not a table of the recipe")
        return table
    sources = tables.get("source")
    named = {
        source["name"]: source
        for source in (sources if isinstance(sources, list) else [])
        if isinstance(source, dict) and isinstance(source.get("name"), str)
    }
    if name not in named:
        near = difflib.get_close_matches(name, named, n=1)
        known = f"did you mean {near[0]!r}" if near else f"the sources are {sorted(named)}"
        raise RecipeError(f"override {override!r} names no source of the recipe; {known}")
    return named[name]


def _value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could smuggle in further keys; such a text is a plain string.
    return parsed["value"] if len(parsed) == 1 else text
