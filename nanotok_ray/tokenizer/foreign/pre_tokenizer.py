"""The split pattern in a tokenizer.json: what stands before BPE, if it is one pattern alone."""

from typing import Any

from nanotok_ray.counts.patterns import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.oniguruma import check_reads_alike
from nanotok_ray.tokenizer.huggingface_pattern import to_huggingface_pattern

_KNOWN = (
    "read are ByteLevel (GPT-2's pattern), and Split by a Regex, Isolated, then ByteLevel without "
    "use_regex"
)

_WRITTEN_HERE = {to_huggingface_pattern(pattern): pattern for pattern in PATTERNS.values()}
"""Named patterns, by how our own tokenizer.json spells them: read back they are the same text."""


def pattern_of(pre_tokenizer: object, *, name: str) -> str:
    """Give the pattern of the value of "pre_tokenizer".

    Raises:
        TokenizerError: It does anything else than cut a text by one pattern.
    """
    match _steps(pre_tokenizer):
        case [{"type": "ByteLevel"} as last] if _uses_regex(last):
            pattern = PATTERNS["r50k"]
        case [{"type": "Split"} as first, {"type": "ByteLevel"} as last] if not _uses_regex(last):
            pattern = _pattern_of_split(first, name=name)
        case steps:
            raise TokenizerError(f"{name}: its pre_tokenizer is {_shown(steps)}: {_KNOWN}")
    if last.get("add_prefix_space", True) is not False:
        raise TokenizerError(
            f"{name}: its pre_tokenizer has add_prefix_space, which puts a space before each text: "
            "ids of a text would not be those of its bytes"
        )
    return pattern


def _steps(pre_tokenizer: object) -> list[Any]:
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "Sequence":
        steps = pre_tokenizer.get("pretokenizers")
        return steps if isinstance(steps, list) else [steps]
    return [pre_tokenizer]


def _uses_regex(byte_level: dict[str, Any]) -> bool:
    return byte_level.get("use_regex", True) is not False


def _pattern_of_split(split: dict[str, Any], *, name: str) -> str:
    match split:
        case {"pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}:
            if split.get("invert", False) is False:
                if pattern in _WRITTEN_HERE:
                    return _WRITTEN_HERE[pattern]
                check_reads_alike(pattern, name=name)
                return pattern
    shown = {key: value for key, value in split.items() if key != "type"}
    raise TokenizerError(f"{name}: its pre_tokenizer splits by {str(shown)[:200]}: {_KNOWN}")


def _shown(steps: list[Any]) -> str:
    types = [step.get("type") if isinstance(step, dict) else step for step in steps]
    return f"{' then '.join(map(str, types))[:200]}"
