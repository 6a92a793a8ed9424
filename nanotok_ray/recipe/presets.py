"""`preset:NAME` in a list of special tokens: the tokens of that preset.

Takes names and the key they are under; gives names. Does not know what the tokens are for.
"""

from collections.abc import Sequence

from nanotok_ray.errors import RecipeError
from nanotok_ray.special_tokens import PRESETS

_PREFIX = "preset:"


def expand_presets(key: str, names: Sequence[str]) -> tuple[str, ...]:
    """Give the names with the tokens of each preset in its place.

    >>> expand_presets("tokenizer.extend", ["<|pad|>", "preset:nano-deepseek-ocr"])
    ('<|pad|>', '<|image|>')

    Raises:
        RecipeError: There is no preset of that name.
    """
    expanded: list[str] = []
    for name in names:
        if not name.startswith(_PREFIX):
            expanded.append(name)
            continue
        preset = PRESETS.get(name.removeprefix(_PREFIX))
        if preset is None:
            known = ", ".join(f"{_PREFIX}{each}" for each in PRESETS)
            raise RecipeError(f"{key} holds {name!r}; the presets are {known}")
        expanded += preset.special_tokens
    return tuple(expanded)
