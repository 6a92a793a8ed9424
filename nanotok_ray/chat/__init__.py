"""Conversations and documents with images, rendered to ids and loss masks.

Input is documents of a dialect, an encoder and the ids of special tokens. Output is ids with a
label for each, or the texts that are encoded separately. The compiled core renders well-formed
documents; `reference` renders the others, or raises the error that names the problem.
"""

from nanotok_ray.chat.vision import (
    MAX_IMAGE_TOKENS,
    PLACEHOLDER,
    base_image_tokens,
    cut,
    message_segments,
    prompt_segments,
    text_segments,
    tiled_image_tokens,
    tiles_of,
)
from nanotok_ray.recipe.special_tokens import GROUNDING, PRESETS, Preset

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
