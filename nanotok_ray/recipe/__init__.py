"""The recipe: the TOML file that describes one job.

Input is TOML text, overrides and environment variables. Output is a validated, frozen `Recipe`.
The package opens no input, no tokenizer and no output folder.
"""

from nanotok_ray.recipe.limits import MAX_DOCUMENT_BYTES, LearnerRecipe, LimitsRecipe
from nanotok_ray.recipe.model import Gaps, OutputRecipe, Recipe, TokenizerRecipe
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
