"""Conversations and documents with images, rendered to ids and loss masks.

The input is documents of a dialect, an encoder and the ids of special tokens. The result is ids
with a label for each id, or the texts that are encoded separately. The compiled core renders
well-formed documents; `reference` renders the others, or raises an error that names the problem.
"""

from nanotok_ray.chat.batches import BatchRenderer, RenderedBatch, core_dialect, texts_of
from nanotok_ray.chat.conversation import layout, render, render_for_completion, shape_fault
from nanotok_ray.chat.known_templates import with_blocks
from nanotok_ray.chat.reference import (
    conversation_of,
    message_texts,
    segments_of,
)
from nanotok_ray.chat.segments import Composed, Segment, compose
from nanotok_ray.chat.template import ChatTemplate, check_template
from nanotok_ray.chat.templated import PlainRenderer, TemplateRenderer, overlapping
from nanotok_ray.chat.turns import Span
from nanotok_ray.chat.vision import (
    PLACEHOLDER,
    ImageSettings,
    base_image_tokens,
    cut,
    message_segments,
    prompt_segments,
    text_segments,
    tiled_image_tokens,
    tiles_of,
)
from nanotok_ray.recipe import GROUNDING, PRESETS

__all__ = [
    "GROUNDING",
    "PLACEHOLDER",
    "PRESETS",
    "BatchRenderer",
    "ChatTemplate",
    "Composed",
    "ImageSettings",
    "PlainRenderer",
    "RenderedBatch",
    "Segment",
    "Span",
    "TemplateRenderer",
    "base_image_tokens",
    "check_template",
    "compose",
    "conversation_of",
    "core_dialect",
    "cut",
    "layout",
    "message_segments",
    "message_texts",
    "overlapping",
    "prompt_segments",
    "render",
    "render_for_completion",
    "segments_of",
    "shape_fault",
    "text_segments",
    "texts_of",
    "tiled_image_tokens",
    "tiles_of",
    "with_blocks",
]
