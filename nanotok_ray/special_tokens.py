"""The special tokens of nanochat, in the order of their ids, and sets of others to add to them."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Final

SPECIAL_TOKENS: Final = (
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
)
"""A document starts with the first; the others are for chats."""

GROUNDING: Final = ("<|grounding|>", "<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>")
"""What says where something is in an image: the task, a name and its end, a box and its end."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Special tokens that a kind of model expects beside nanochat's."""

    name: str
    """What recipes and the command line call it."""
    image_token: str
    """The one whose copies stand for an image."""
    special_tokens: tuple[str, ...]
    """All of them, in the order of their ids."""


_PRESETS = (
    Preset("seed", "<image>", ("<image>", *GROUNDING)),
    Preset("nano-deepseek-ocr", "<|image|>", ("<|image|>",)),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _PRESETS}
"""By name. `seed`: images and grounding; `nano-deepseek-ocr`: the one token of that project."""

IMAGE_TOKENS: Final = tuple(preset.image_token for preset in _PRESETS)
"""The first of them that a tokenizer has stands for images, unless another one is named."""


def image_token_of(special_tokens: Container[str]) -> str | None:
    """Give the special token that stands for images, None if there is none.

    >>> image_token_of(["<|bos|>", "<|image|>"])
    '<|image|>'
    """
    return next((name for name in IMAGE_TOKENS if name in special_tokens), None)
