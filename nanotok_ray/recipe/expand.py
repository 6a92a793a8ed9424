"""Environment variables, home folders and relative paths in the strings of a recipe.

Takes strings as they stand in the TOML file; gives what they mean on this machine. Does not know
which key a string belongs to beyond the name it is given for its error.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from nanotok_ray.errors import RecipeError

_VARIABLE = re.compile(r"\$?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<default>:-[^}]*)?\}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")


def expand_variables(value: object, *, key: str, environment: Mapping[str, str]) -> object:
    """Replace `${NAME}` and `${NAME:-default}` in every string of `value`, however deep.

    `$${NAME}` stands for the literal text `${NAME}`.

    Raises:
        RecipeError: a variable is not set and has no default.

    >>> expand_variables(["${DATA:-/data}/web", 3], key="paths", environment={})
    ['/data/web', 3]
    """
    if isinstance(value, str):
        return _expand_string(value, key=key, environment=environment)
    if isinstance(value, list):
        return [expand_variables(item, key=key, environment=environment) for item in value]
    if isinstance(value, dict):
        return {
            name: expand_variables(
                item, key=f"{key}.{name}" if key else name, environment=environment
            )
            for name, item in value.items()
        }
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


def absolute_path(path: str) -> str:
    """Make a local path absolute and expand a leading `~`; a URL stays as it is.

    Raises:
        RecipeError: `~name` stands for no user of this machine.

    >>> absolute_path("s3://bucket/web/*.parquet")
    's3://bucket/web/*.parquet'
    """
    if not path or _URL.match(path):
        return path
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as error:
        raise RecipeError(
            f"{path} begins with ~, and no such user has a home folder here; write the whole path"
        ) from error
    return os.path.abspath(expanded)  # noqa: PTH100 - Path.absolute keeps ".."
