"""The recipe: the TOML file that describes one job.

The input is TOML text, overrides and environment variables, or Python values. The output is a
validated, immutable `Recipe`. The package opens no input, no tokenizer and no output folder.

The names below are imported on first use: `special_tokens`, which a reader of shards also needs,
does not import pydantic.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.recipe.model import (
        MAX_DOCUMENT_BYTES,
        LearnerRecipe,
        LimitsRecipe,
        OutputRecipe,
        Recipe,
        TokenizerRecipe,
    )
    from nanotok_ray.recipe.parse import build_recipe, load_recipe, parse_recipe
    from nanotok_ray.recipe.source import SourceRecipe
    from nanotok_ray.recipe.special_tokens import (
        AUTO,
        FIM_TOKENS,
        GROUNDING,
        IMAGE_TOKENS,
        NANOCHAT,
        PRESETS,
        SPECIAL_TOKENS,
        Preset,
        fim_tokens_of,
        image_token_of,
    )
    from nanotok_ray.recipe.text import names_hub_model, parse_size
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "text": "names_hub_model parse_size",
            "model": (
                "LearnerRecipe LimitsRecipe MAX_DOCUMENT_BYTES OutputRecipe Recipe TokenizerRecipe"
            ),
            "parse": "build_recipe load_recipe parse_recipe",
            "source": "SourceRecipe",
            "special_tokens": (
                "AUTO FIM_TOKENS GROUNDING IMAGE_TOKENS NANOCHAT PRESETS Preset SPECIAL_TOKENS "
                "fim_tokens_of image_token_of"
            ),
        },
    )

__all__ = [
    "AUTO",
    "FIM_TOKENS",
    "GROUNDING",
    "IMAGE_TOKENS",
    "MAX_DOCUMENT_BYTES",
    "NANOCHAT",
    "PRESETS",
    "SPECIAL_TOKENS",
    "LearnerRecipe",
    "LimitsRecipe",
    "OutputRecipe",
    "Preset",
    "Recipe",
    "SourceRecipe",
    "TokenizerRecipe",
    "build_recipe",
    "fim_tokens_of",
    "image_token_of",
    "load_recipe",
    "names_hub_model",
    "parse_recipe",
    "parse_size",
]
