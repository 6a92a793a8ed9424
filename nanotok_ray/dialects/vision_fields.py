"""Documents of kind vision: the fields of each dialect, handed over to `vision`.

Takes a JSON value and the dialect; gives its segments. Where images stand and how many tokens each
takes is `vision`'s business.
"""

from typing import Any

from nanotok_ray import vision
from nanotok_ray.dialects.detect import VISION_DIALECTS, Dialect
from nanotok_ray.dialects.fields import object_of, string_of
from nanotok_ray.dialects.messages import messages_of
from nanotok_ray.recipe.special_tokens import PRESETS
from nanotok_ray.segments import Segment

COUNTS = "image_token_counts"
"""The field that says how many tokens each image of a document takes."""


def segments_of(value: object, dialect: Dialect) -> list[Segment]:
    """Give the segments of a document with images.

    Raises:
        SourceError: The document is not of its dialect's shape.
        AssertionError, LookupError, TypeError, ValueError, RecursionError: It is malformed, or the
            dialect is, and how.
    """
    image_token = _image_token_of(dialect)
    tokens, grounding = dialect.image_tokens, dialect.grounding
    if dialect.name == "messages":
        return vision.message_segments(
            {"messages": messages_of(value)},
            counts=value.get(COUNTS) if isinstance(value, dict) else None,
            image_token=image_token,
            image_tokens=tokens,
            grounding=grounding,
        )
    document = object_of(value)
    if dialect.name == "text":
        return vision.text_segments(
            string_of(document, "text"),
            counts=document.get(COUNTS),
            image_token=image_token,
            image_tokens=tokens,
            grounding=grounding,
        )
    return _pair(document, dialect, image_token)


def _pair(document: dict[str, Any], dialect: Dialect, image_token: str) -> list[Segment]:
    return vision.prompt_segments(
        string_of(document, "prompt", "text"),
        string_of(document, "response"),
        counts=document.get(COUNTS),
        image_token=image_token,
        image_tokens=dialect.image_tokens,
        grounding=dialect.grounding,
        train_prompt=dialect.train_prompt,
    )


def _image_token_of(dialect: Dialect) -> str:
    if dialect.name not in VISION_DIALECTS:
        known = ", ".join(VISION_DIALECTS)
        raise ValueError(f"unknown dialect of kind 'vision': {dialect.name!r}; known are {known}")
    if dialect.image_token is None:
        tokens = " or ".join(
            f"{preset.image_token!r} (preset {name})" for name, preset in PRESETS.items()
        )
        raise ValueError(
            f"no image token: dialect {dialect.name!r} of kind 'vision' needs the special token "
            f"that stands for an image, {tokens}, or another of the tokenizer's"
        )
    return dialect.image_token
