"""Vision: documents with images to segments, and how many tokens an image has.

document: prompt and response, one text, or a conversation, as segments. image_size: counts of
tokens from pixels. The special tokens that images need are presets of `special_tokens`.
"""

from nanotok_ray.recipe.special_tokens import GROUNDING, PRESETS, Preset
from nanotok_ray.vision.document import (
    MAX_IMAGE_TOKENS,
    PLACEHOLDER,
    cut,
    message_segments,
    prompt_segments,
    text_segments,
)
from nanotok_ray.vision.image_size import base_image_tokens, tiled_image_tokens, tiles_of

__all__ = [
    "GROUNDING",
    "MAX_IMAGE_TOKENS",
    "PLACEHOLDER",
    "PRESETS",
    "Preset",
    "base_image_tokens",
    "cut",
    "message_segments",
    "prompt_segments",
    "text_segments",
    "tiled_image_tokens",
    "tiles_of",
]
