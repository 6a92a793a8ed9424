"""The recipe: the TOML file that says all of one job.

Takes TOML text, overrides and environment variables; gives a checked, frozen `Recipe`. Does not
know whether any input exists, what a tokenizer folder holds, or how the job runs.
"""

from nanotok_ray.recipe.learner import LearnerRecipe
from nanotok_ray.recipe.limits import MAX_DOCUMENT_BYTES, LimitsRecipe
from nanotok_ray.recipe.model import (
    Gaps,
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
