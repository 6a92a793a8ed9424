"""A recipe's file: its bytes, its text, and the TOML tables of that, unchecked.

Does not know which keys a recipe has.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

from nanotok_ray.errors import RecipeError


def read_recipe(path: str) -> bytes:
    """Return the bytes of a local file.

    Raises:
        RecipeError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise RecipeError(
            f"cannot read the recipe {path}: {error.strerror}; give the path of a local TOML file"
        ) from error


def decoded(data: bytes, *, name: str) -> str:
    """Return the text of a recipe, without the byte order mark that some editors write.

    Raises:
        RecipeError: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name} is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def tables_of(text: str, *, name: str) -> dict[str, Any]:
    """Return what the TOML text of a recipe says, unchecked.

    Raises:
        RecipeError: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        if text.lstrip().startswith("{") or _is_json(text):
            raise RecipeError(
                f"{name} is JSON, and recipes are TOML: write tables as [output] and keys as "
                'path = "/data/out" (docs/recipes.md has examples)'
            ) from error
        raise RecipeError(f"{name} is not TOML: {error}; mend that line") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
