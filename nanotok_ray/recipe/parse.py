"""From TOML text to a checked recipe.

The text of a recipe, overrides and the process's environment become a `Recipe`. Every key must be
known and every value must have its type; `model` checks the values.
"""

import difflib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.limits import LearnerRecipe, LimitsRecipe
from nanotok_ray.recipe.model import (
    OutputRecipe,
    Recipe,
    TokenizerRecipe,
)
from nanotok_ray.recipe.source import SourceRecipe
from nanotok_ray.recipe.text import (
    absolute_path,
    apply_override,
    decoded,
    expand_variables,
    parse_size,
    read_recipe,
    tables_of,
)

_Reader = Callable[[Any, str], Any]
"""Takes a value of the recipe and the name of its key; returns the typed value, or raises."""


def load_recipe(path: str, *, overrides: Sequence[str] = ()) -> Recipe:
    """Read, override and check the recipe in a local TOML file.

    Raises:
        RecipeError: the file cannot be read, or what it says is wrong.
    """
    text = decoded(read_recipe(path), name=path)
    return parse_recipe(text, overrides=overrides, name=path)


def parse_recipe(text: str, *, overrides: Sequence[str] = (), name: str = "recipe") -> Recipe:
    """Check the TOML text of a recipe; `name` is what errors call it.

    Raises:
        RecipeError: the text is not TOML, or what it says is wrong.

    >>> recipe = parse_recipe('''
    ... [[source]]
    ... name = "web"
    ... kind = "text"
    ... paths = ["/data/web/*.parquet"]
    ... [output]
    ... path = "/data/out"
    ... ''', overrides=["limits.slice_bytes=64MiB"])
    >>> recipe.sources[0].split, recipe.limits.slice_bytes, recipe.output.work
    ('last-file', 67108864, '/data/out/work')
    """
    tables = tables_of(text, name=name)
    try:
        for override in overrides:
            apply_override(tables, override)
        comments = "".join(f"# --set {override}\n" for override in overrides)
        return replace(build_recipe(tables, environment=os.environ), text=text + comments)
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from error.__cause__


def build_recipe(tables: Mapping[str, Any], *, environment: Mapping[str, str]) -> Recipe:
    """Check the tables of a recipe; the inverse of `Recipe.to_dict`.

    Raises:
        RecipeError: a key is unknown or missing, or a value is wrong.
    """
    _check_keys(tables, known=_TABLES, name="")
    sources = tables.get("source", [])
    if not isinstance(sources, list) or not all(isinstance(item, dict) for item in sources):
        raise RecipeError("source is not a list of tables; begin each source with [[source]]")
    return Recipe(
        sources=tuple(_source(table, environment=environment) for table in sources),
        tokenizer=TokenizerRecipe(**_fields(tables, "tokenizer", _TOKENIZER, environment)),
        output=OutputRecipe(**_fields(tables, "output", _OUTPUT, environment)),
        limits=LimitsRecipe(**_fields(tables, "limits", _LIMITS, environment)),
        learner=LearnerRecipe(**_fields(tables, "learner", _LEARNER, environment)),
    )


def _source(table: dict[str, Any], *, environment: Mapping[str, str]) -> SourceRecipe:
    name = table.get("name")
    key = f"source.{name}" if isinstance(name, str) and name else "source"
    return SourceRecipe(**_read_table(table, key, _SOURCE, environment))


def _fields(
    tables: Mapping[str, Any],
    name: str,
    readers: Mapping[str, _Reader],
    environment: Mapping[str, str],
) -> dict[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise RecipeError(f"{name} = {table!r} is not a table; write [{name}] above its keys")
    return _read_table(table, name, readers, environment)


def _read_table(
    table: Mapping[str, Any],
    name: str,
    readers: Mapping[str, _Reader],
    environment: Mapping[str, str],
) -> dict[str, Any]:
    _check_keys(table, known=readers, name=name)
    for required in _REQUIRED.get(name.partition(".")[0], ()):
        if required not in table:
            raise RecipeError(f"{name}.{required} is missing; add a line {required} = ...")
    return {
        key: readers[key](
            expand_variables(value, key=f"{name}.{key}", environment=environment),
            f"{name}.{key}",
        )
        for key, value in table.items()
    }


def _check_keys(table: Iterable[str], *, known: Iterable[str], name: str) -> None:
    known = list(known)
    for key in table:
        if key in known:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"
        where = f"in [{name}]" if name else "at the top level"
        raise RecipeError(f"unknown key {key!r} {where}; {hint}")


def _string(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise RecipeError(f"{key} = {value!r} is not a string; put it in quotes")
    return value


def _strings(value: object, key: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RecipeError(f'{key} = {value!r} is not a list of strings; write ["first", "second"]')
    return tuple(value)


def _boolean(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise RecipeError(f"{key} = {value!r} is neither true nor false")
    return value


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecipeError(f"{key} = {value!r} is not a number")
    return float(value)


def _decimal(value: object, key: str) -> str:
    """Take a decimal as it is written: in quotes, or as a number without an exponent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RecipeError(f'{key} = {value!r} is not a decimal; write it in quotes, as "2.5"')
    return str(value)


def _size(value: object, key: str) -> int:
    return parse_size(value, key=key)


def _sizes(value: object, key: str) -> tuple[int, ...]:
    return tuple(_size(item, key) for item in (value if isinstance(value, list) else [value]))


def _path(value: object, key: str) -> str:
    return absolute_path(_string(value, key))


def _paths(value: object, key: str) -> tuple[str, ...]:
    return tuple(absolute_path(path) for path in _strings(value, key))


def _optional(reader: _Reader) -> _Reader:
    """Return a reader that accepts None (as `to_dict` has it) and "none" too; TOML has no null."""
    return lambda value, key: None if value is None or value == "none" else reader(value, key)


_SOURCE: dict[str, _Reader] = {
    "name": _string,
    "kind": _string,
    "paths": _paths,
    "format": _optional(_string),
    "column": _string,
    "id_column": _optional(_string),
    "split": _string,
    "val_files": _strings,
    "count": _boolean,
    "weight": _decimal,
    "prepend": _strings,
    "append": _strings,
    "dialect": _optional(_string),
    "image_token": _optional(_string),
    "image_tokens": _optional(_size),
    "grounding": _boolean,
    "train_prompt": _boolean,
}
_TOKENIZER: dict[str, _Reader] = {
    "vocab_size": _size,
    "pattern": _string,
    "special_tokens": _strings,
    "extra_special_tokens": _strings,
    "extend": _strings,
    "gaps": _string,
    "min_pair_count": _size,
    "max_token_bytes": _optional(_size),
    "min_count": _size,
    "also": _sizes,
    "span_table": _optional(_size),
    "path": _optional(_path),
}
_OUTPUT: dict[str, _Reader] = {
    "path": _path,
    "work": _path,
    "layouts": _strings,
    "allow_removed": _boolean,
    "replace": _boolean,
}
_LIMITS: dict[str, _Reader] = {
    "slice_bytes": _size,
    "max_shard_tokens": _optional(_size),
    "max_tokens": _optional(_size),
    "too_long": _string,
    "untrainable": _string,
    "doc_cap": _optional(_size),
    "max_chars": _optional(_size),
    "max_document_bytes": _size,
    "max_quarantined_share": _number,
    "max_quarantined": _optional(_size),
    "max_tails": _size,
    "max_skipped_slices": _size,
    "slice_deadline": _size,
}
_LEARNER: dict[str, _Reader] = {
    "memory": _optional(_size),
    "cpus": _size,
    "label": _optional(_string),
}
_TABLES = ("source", "tokenizer", "output", "limits", "learner")
_REQUIRED: dict[str, tuple[str, ...]] = {
    "source": ("name", "kind", "paths"),
    "output": ("path",),
}
