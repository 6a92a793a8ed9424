"""Patterns and special tokens of well-known tokenizers whose files contain ranks only."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from nanotok_ray.counts import PATTERNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """What a file of ranks does not say."""

    pattern: str
    special_tokens: tuple[str, ...]
    """The names of the ids after the last rank."""
    prepend: tuple[str, ...] = ()
    """The special tokens that the models expect before a text."""
    append: tuple[str, ...] = ()
    """The special tokens that the models expect after a text."""


def _reserved(count: int, *, kind: str = "reserved", first: int = 0) -> tuple[str, ...]:
    return tuple(f"<|{kind}_special_token_{number}|>" for number in range(first, first + count))


def _llama3() -> Family:
    named = (
        *("<|begin_of_text|>", "<|end_of_text|>", *_reserved(2), "<|finetune_right_pad_id|>"),
        *("<|step_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"),
        *("<|python_tag|>", "<|image|>"),
    )
    return Family(
        pattern=PATTERNS["gpt4"],
        special_tokens=(*named, *_reserved(256 - len(named), first=2)),
        prepend=("<|begin_of_text|>",),
    )


def _llama4() -> Family:
    text, vision, reasoning = "text_post_train_reserved", "vision_reserved", "reasoning_reserved"
    named = (
        *("<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>"),
        *("<|fim_suffix|>", "<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>"),
        *("<|step|>", *_reserved(6, kind=text), "<|python_start|>", "<|python_end|>"),
        *("<|finetune_right_pad|>", *_reserved(61, kind=text, first=8)),
        *("<|image_start|>", "<|image_end|>", *_reserved(2, kind=vision)),
        *("<|tile_x_separator|>", "<|tile_y_separator|>", *_reserved(4, kind=vision, first=2)),
        *("<|image|>", *_reserved(1, kind=vision, first=6), "<|patch|>"),
        *_reserved(1041, kind=vision, first=7),
        *(*_reserved(8, kind=reasoning), "<|reasoning_thinking_start|>"),
        "<|reasoning_thinking_end|>",
    )
    return Family(
        pattern=PATTERNS["o200k"],
        special_tokens=(*named, *_reserved(2048 - len(named))),
        prepend=("<|begin_of_text|>",),
    )


def _qwen() -> Family:
    extras = (f"<|extra_{number}|>" for number in range(205))
    one_digit = PATTERNS["gpt4"].replace(r"\p{N}{1,3}", r"\p{N}")
    return Family(
        pattern=one_digit,
        special_tokens=("<|endoftext|>", "<|im_start|>", "<|im_end|>", *extras),
        append=("<|endoftext|>",),
    )


_LANGUAGES: Final = [
    "en",
    "zh",
    "de",
    "es",
    "ru",
    "ko",
    "fr",
    "ja",
    "pt",
    "tr",
    "pl",
    "ca",
    "nl",
    "ar",
    "sv",
    "it",
    "id",
    "hi",
    "fi",
    "vi",
    "he",
    "uk",
    "el",
    "ms",
    "cs",
    "ro",
    "da",
    "hu",
    "ta",
    "no",
    "th",
    "ur",
    "hr",
    "bg",
    "lt",
    "la",
    "mi",
    "ml",
    "cy",
    "sk",
    "te",
    "fa",
    "lv",
    "bn",
    "sr",
    "az",
    "sl",
    "kn",
    "et",
    "mk",
    "br",
    "eu",
    "is",
    "hy",
    "ne",
    "mn",
    "bs",
    "kk",
    "sq",
    "sw",
    "gl",
    "mr",
    "pa",
    "si",
    "km",
    "sn",
    "yo",
    "so",
    "af",
    "oc",
    "ka",
    "be",
    "tg",
    "sd",
    "gu",
    "am",
    "yi",
    "lo",
    "uz",
    "fo",
    "ht",
    "ps",
    "tk",
    "nn",
    "mt",
    "sa",
    "lb",
    "my",
    "bo",
    "tl",
    "mg",
    "as",
    "tt",
    "haw",
    "ln",
    "ha",
    "ba",
    "jw",
    "su",
]
"""The 99 languages of Whisper's multilingual models; the models of version 3 add yue."""


def _whisper() -> Family:
    return Family(
        pattern=PATTERNS["r50k"],
        special_tokens=(
            *("<|endoftext|>", "<|startoftranscript|>", *(f"<|{name}|>" for name in _LANGUAGES)),
            *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
            *("<|nospeech|>", "<|notimestamps|>"),
            *(f"<|{number * 0.02:.2f}|>" for number in range(1501)),
        ),
        append=("<|endoftext|>",),
    )


FAMILIES: Final[Mapping[str, Callable[[], Family]]] = {
    "llama3": _llama3,
    "llama4": _llama4,
    "qwen": _qwen,
    "whisper": _whisper,
}
"""Families by the name that follows the path of a file, as in `tokenizer.model:llama3`."""
