"""The special tokens of nanochat, and presets of additional ones."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nanotok_ray.errors import RecipeError

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
"""The first begins every document; the others are for chats."""

NANOCHAT: Final = "nanochat"
"""The rendering of conversations as nanochat does, in place of a chat template."""

AUTO: Final = "auto"
"""The rendering of conversations that the tokenizer decides."""

GROUNDING: Final = ("<|grounding|>", "<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>")
"""Tokens for positions in an image: the task, start and end of a name, start and end of a box."""

FIM_TOKENS: Final = (
    ("<fim_prefix>", "<fim_middle>", "<fim_suffix>"),
    ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),
    ("<fim-prefix>", "<fim-middle>", "<fim-suffix>"),
    ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581end\uff5c>", "<\uff5cfim\u2581hole\uff5c>"),
    ("\u2581<PRE>", "\u2581<MID>", "\u2581<SUF>"),
)
"""Tokens of the prefix, the middle and the suffix for filling in the middle: of StarCoder; of Qwen,
CodeGemma and cl100k; of SantaCoder; of DeepSeek; of Code Llama. The first that a tokenizer has are
used, unless others are named.
"""


@dataclass(frozen=True, slots=True)
class Preset:
    """Special tokens that a kind of model requires in addition to nanochat's."""

    name: str
    """The name in recipes and on the command line."""
    image_token: str
    """The token that is repeated for each image."""
    special_tokens: tuple[str, ...]
    """All tokens, in the order of their ids."""


_PRESETS = (
    Preset("seed", "<image>", ("<image>", *GROUNDING)),
    Preset("nano-deepseek-ocr", "<|image|>", ("<|image|>",)),
)

PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _PRESETS}
"""Presets by name. `seed`: images and grounding; `nano-deepseek-ocr`: the single token of that
project.
"""

IMAGE_TOKENS: Final = tuple(preset.image_token for preset in _PRESETS)
"""The first of these that a tokenizer has is used for images, unless another one is named."""


def image_token_of(special_tokens: Container[str]) -> str | None:
    """Return the special token for images, or None if there is none.

    >>> image_token_of(["<|bos|>", "<|image|>"])
    '<|image|>'
    """
    return next((name for name in IMAGE_TOKENS if name in special_tokens), None)


def fim_tokens_of(special_tokens: Container[str]) -> tuple[str, str, str] | None:
    """Return the tokens of prefix, middle and suffix, or None if there are none.

    >>> fim_tokens_of(["<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"])
    ('<fim_prefix>', '<fim_middle>', '<fim_suffix>')
    """
    return next((names for names in FIM_TOKENS if all(n in special_tokens for n in names)), None)


_PREFIX = "preset:"


def expand_presets(key: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, with each preset replaced by its tokens.

    >>> expand_presets("tokenizer.extend", ["<|pad|>", "preset:nano-deepseek-ocr"])
    ('<|pad|>', '<|image|>')

    Raises:
        RecipeError: A preset is unknown.
    """
    expanded: list[str] = []
    for name in names:
        if not name.startswith(_PREFIX):
            expanded.append(name)
            continue
        preset = PRESETS.get(name.removeprefix(_PREFIX))
        if preset is None:
            known = ", ".join(f"{_PREFIX}{known_preset}" for known_preset in PRESETS)
            raise RecipeError(f"{key} holds {name!r}; the presets are {known}")
        expanded += preset.special_tokens
    return tuple(expanded)
