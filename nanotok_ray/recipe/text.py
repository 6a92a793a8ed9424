"""The file of a recipe: TOML tables, overrides, variables, paths and sizes, before validation."""

import difflib
import json
import os
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from nanotok_ray.errors import RecipeError
from nanotok_ray.units import printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_recipe(path: str) -> bytes:
    """Return the bytes of a local file.

    Raises:
        RecipeError: The file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise RecipeError(
            f"cannot read the recipe {path}: {error.strerror}; pass the path of a local TOML file"
        ) from error


def decoded(data: bytes, *, name: str) -> str:
    """Return the text of a recipe, without the byte order mark that some editors write.

    Raises:
        RecipeError: The text is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name} is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def tables_of(text: str, *, name: str) -> dict[str, Any]:
    """Return the tables of the TOML text of a recipe, without validation.

    Raises:
        RecipeError: The text is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if text.lstrip().startswith("{") or _is_json(text):
            raise RecipeError(
                f"{name} is JSON, and recipes are TOML: write tables as [output] and keys as "
                'path = "/data/out" (docs/recipes.md has examples)'
            ) from error
        raise RecipeError(f"{name} is not TOML: {error}; {_advice(text, str(error))}") from error


def _advice(text: str, problem: str) -> str:
    r"""Return the next step for a problem of tomllib, which names a line or the end of the text.

    >>> _advice("a = 1\nb = x\n", "Invalid value (at line 2, column 5)")
    "fix the line 'b = x'"
    """
    line = re.search(r"at line (\d+)", problem)
    if line is None:
        return "close every bracket and quotation mark that is opened"
    return f"fix the line {printable(text.splitlines()[int(line[1]) - 1].strip())!r}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(?:@[\w./-]+)?")
_VARIABLE = re.compile(r"\$?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")


def expand_variables(value: object, *, key: str, environment: Mapping[str, str]) -> object:
    """Replace `${NAME}` and `${NAME:-default}` in a string, and in every string of a list.

    `$${NAME}` is the literal text `${NAME}`.

    Raises:
        RecipeError: A variable is not set and has no default.

    >>> expand_variables(["${DATA:-/data}/web", 3], key="paths", environment={})
    ['/data/web', 3]
    """
    if isinstance(value, str):
        return _expand_string(value, key=key, environment=environment)
    if isinstance(value, list):
        return [expand_variables(item, key=key, environment=environment) for item in value]
    return value


def _expand_string(text: str, *, key: str, environment: Mapping[str, str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        name, default = match["name"], match["default"]
        if name in environment:
            return environment[name]
        if default is None:
            raise RecipeError(
                f"{key} = {text!r} needs the environment variable {name}, which is not set; "
                f"set it, or give a default with ${{{name}:-...}}"
            )
        return default[2:]

    return _VARIABLE.sub(replacement, text)


def absolute_path(path: str, *, key: str | None = None) -> str:
    """Return a local path as an absolute path, with `~` expanded; return a URL unchanged.

    An error calls the path `key`, or if it is None begins with the path.

    Raises:
        RecipeError: `~name` is not a user of this machine.

    >>> absolute_path("s3://bucket/web/*.parquet")
    's3://bucket/web/*.parquet'
    """
    if not path or _URL.match(path):
        return path
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as error:
        raise RecipeError(
            f"{'' if key is None else f'{key}: '}{path} begins with ~, but this user has no home "
            "folder on this machine; write the full path"
        ) from error
    return os.path.abspath(expanded)  # noqa: PTH100 - Path.absolute keeps ".."


def names_hub_model(path: str) -> bool:
    """Return whether a path is no local path, but the name of a model of the Hugging Face hub.

    Such a name has the form OWNER/MODEL, with an optional @REVISION. A path below an existing
    folder is a path.

    >>> names_hub_model("Qwen/Qwen3-8B@main"), names_hub_model("/data/Qwen3-8B")
    (True, False)
    """
    is_name = _HUB_NAME.fullmatch(path) is not None and path[0] != "."
    return is_name and not Path(path).parent.exists()


def apply_override(tables: dict[str, Any], override: str) -> tuple[int | str, ...]:
    """Set a key of `tables` to a TOML value, or to a string if the value is not TOML.

    Returns:
        The location of the key in the tables, a `problems.Location`.

    Raises:
        RecipeError: The override has no `=` or no table, or names an unknown source.

    >>> tables = {"limits": {}}
    >>> apply_override(tables, "limits.slice_bytes=256MiB")
    ('limits', 'slice_bytes')
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
    value = _value(text.strip())
    first, _, name = table.partition(".")
    if first == "source":
        index = _source_named(name, tables.get("source"), override=override)
        tables["source"][index][key] = value
        return ("source", index, key)
    if not isinstance(tables.setdefault(table, {}), dict):
        raise RecipeError(f"override {override!r}: {table} is not a table of the recipe")
    tables[table][key] = value
    return (table, key)


def _source_named(name: str, sources: object, *, override: str) -> int:
    named = {
        source["name"]: index
        for index, source in enumerate(sources if isinstance(sources, list) else [])
        if isinstance(source, dict) and isinstance(source.get("name"), str)
    }
    if name not in named:
        near = difflib.get_close_matches(name, named, n=1)
        known = f"did you mean {near[0]!r}?" if near else f"the sources are {sorted(named)}"
        raise RecipeError(f"override {override!r} names no source of the recipe; {known}")
    return named[name]


def _value(text: str) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could add further keys; such a text is used as a string.
    return parsed["value"] if len(parsed) == 1 else text


_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][0-9]{1,2})?)\s*([A-Za-z]*)")


def parse_size(value: object, *, key: str) -> int:
    """Return an integer with an optional unit (KB, MB, GB, TB or KiB, MiB, GiB, TiB).

    Raises:
        RecipeError: The value is not an integer.

    >>> parse_size("256MiB", key="limits.slice_bytes")
    268435456
    >>> parse_size(2e9, key="limits.max_chars")
    2000000000
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
        unit = _UNITS.get(match[2].lower())
        if unit is not None:
            number = Decimal(match[1]) * unit
            if number == number.to_integral_value():
                return int(number)
    raise RecipeError(
        f'{key} = {value!r} is not a whole number; write one like 268435456, "256MiB" or "10_000"'
    )
