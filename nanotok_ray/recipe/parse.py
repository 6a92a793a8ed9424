"""Parses TOML text into a validated recipe.

The inputs are the text of a recipe, overrides and the process's environment.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.model import Recipe
from nanotok_ray.recipe.problems import (
    OVERRIDDEN,
    Location,
    Problem,
    key_of,
    lines_of,
    problems_of,
    refusal,
)
from nanotok_ray.recipe.table import FROM_TOML
from nanotok_ray.recipe.text import (
    absolute_path,
    apply_override,
    decoded,
    expand_variables,
    read_recipe,
    tables_of,
)


def load_recipe(path: str, *, overrides: Sequence[str] = ()) -> Recipe:
    """Read, override and validate the recipe in a local TOML file.

    Raises:
        RecipeError: The file cannot be read, or its content is invalid.
    """
    text = decoded(read_recipe(path), name=path)
    return parse_recipe(text, overrides=overrides, name=path, folder=str(Path(path).parent))


def parse_recipe(
    text: str, *, overrides: Sequence[str] = (), name: str = "recipe", folder: str = "."
) -> Recipe:
    """Parse and validate the TOML text of a recipe, which errors call `name`.

    `folder` is the folder of the recipe, in which the files of functions are.

    Raises:
        RecipeError: The text is not TOML or its content is invalid; the message has a line for
            each problem.

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
    lines = lines_of(text)
    try:
        for override in overrides:
            location = apply_override(tables, override)
            lines[location] = OVERRIDDEN
            lines.setdefault(location[:-1], OVERRIDDEN)
        recipe = build_recipe(tables, environment=os.environ, lines=lines, folder=folder)
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from error.__cause__
    recipe._text = text + "".join(f"# --set {override}\n" for override in overrides)  # noqa: SLF001
    return recipe


def build_recipe(
    tables: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    lines: Mapping[Location, int] | None = None,
    folder: str = ".",
) -> Recipe:
    """Validate the tables of a recipe; the inverse of `Recipe.to_dict`.

    Args:
        tables: the tables of TOML.
        environment: the variables that texts can name.
        lines: the lines of the values in the TOML text, for errors.
        folder: the folder of the recipe, in which the files of functions are.

    Raises:
        RecipeError: A key is unknown or missing, or a value is wrong.
    """
    problems: list[Problem] = []

    def expand(value: object, location: Location) -> object:
        if isinstance(value, dict):
            return {name: expand(item, (*location, name)) for name, item in value.items()}
        if isinstance(value, list) and location == ("source",):
            return [expand(item, (*location, index)) for index, item in enumerate(value)]
        try:
            key = key_of(location, tables)
            return expand_variables(value, key=key, environment=environment)
        except RecipeError as error:
            problems.append(Problem(location, str(error)))
            return value

    expanded = {name: expand(table, (name,)) for name, table in tables.items()}
    _find_functions(expanded.get("source"), folder)
    try:
        recipe = Recipe.model_validate(
            {"output": {}} | expanded, context=FROM_TOML, by_alias=True, by_name=False
        )
    except ValidationError as error:
        problems += problems_of(error, tables)
    else:
        if not problems:
            return recipe
    raise refusal(problems, lines=lines) from None


def _find_functions(sources: object, folder: str) -> None:
    """Replace the name of a module by the path of its file, if the folder of the recipe has it."""
    for source in sources if isinstance(sources, list) else ():
        written = source.get("transform") if isinstance(source, dict) else None
        module, colon, function = written.rpartition(":") if isinstance(written, str) else ("",) * 3
        name = module if module.endswith(".py") else f"{module}.py"
        path = Path(folder, absolute_path(name) if name.startswith("~") else name)
        if colon and (module.endswith(".py") or ("." not in module and path.is_file())):
            source["transform"] = f"{path.absolute()}:{function}"
