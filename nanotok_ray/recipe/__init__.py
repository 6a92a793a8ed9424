"""The recipe: the TOML file that describes one job.

Input is TOML text, overrides and environment variables, or values of Python. Output is a validated,
frozen `Recipe`. The package opens no input, no tokenizer and no output folder.

The names below are loaded when they are first used: `special_tokens`, which a reader of shards
needs too, comes without pydantic.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanotok_ray.recipe.model import (
        MAX_DOCUMENT_BYTES,
        Gaps,
        LearnerRecipe,
        LimitsRecipe,
        OutputRecipe,
        Recipe,
        TokenizerRecipe,
    )
    from nanotok_ray.recipe.parse import load_recipe, parse_recipe
    from nanotok_ray.recipe.source import SourceRecipe

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "Gaps",
    "LearnerRecipe",
    "LimitsRecipe",
    "OutputRecipe",
    "Recipe",
    "SourceRecipe",
    "TokenizerRecipe",
    "load_recipe",
    "parse_recipe",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what an attribute is, its module says
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = {"SourceRecipe": "source", "load_recipe": "parse", "parse_recipe": "parse"}
    module = importlib.import_module(f"{__name__}.{modules.get(name, 'model')}")
    return globals().setdefault(name, getattr(module, name))
