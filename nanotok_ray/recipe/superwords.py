"""The key `tokenizer.superword`: tokens of several words (SuperBPE)."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from nanotok_ray.errors import RecipeError
from nanotok_ray.units import did_you_mean

AUTO_PATTERN = "auto"
_PATTERNS = {"nanochat": "nanochat-superwords"}
"""The pattern of the second stage by that of the first; gpt4-superwords for all others."""


class Superwords(NamedTuple):
    """A tokenizer whose later tokens can contain several words."""

    from_size: int
    """The vocabulary size, special tokens included, from which on tokens can have several words."""
    max_words: int = 4
    """The maximum number of words of a token: parts between spaces that are not empty."""
    forbidden: str = ": "
    """Text that no token of the second stage contains; none if empty."""
    pattern: str = AUTO_PATTERN
    """The pattern of the second stage and of the tokenizer: a name or a regular expression."""

    def pattern_after(self, first: str) -> str:
        """Return the name or the regular expression of the pattern.

        `first` is the pattern of the first stage, as the recipe has it.
        """
        if self.pattern != AUTO_PATTERN:
            return self.pattern
        return _PATTERNS.get(first, "gpt4-superwords")

    def to_json(self) -> str:
        """Return the values by the keys of the recipe."""
        values = {name.removesuffix("_size"): value for name, value in self._asdict().items()}
        return json.dumps(values, ensure_ascii=False)


_TYPES = {"from": int, "max_words": int, "forbidden": str, "pattern": str}


def superwords_of(value: object) -> str:
    """Return the values of the key, a table or the JSON of one, as JSON.

    Raises:
        RecipeError: A value is wrong; the message continues the name of the key.
    """
    try:
        values: Any = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        values = None
    if not isinstance(values, Mapping):
        raise RecipeError(f" = {value!r} is not a table; write {{from = 26000, max_words = 4}}")
    for key, item in values.items():
        if key not in _TYPES:
            hint = did_you_mean(key, _TYPES) or f"the keys are {', '.join(_TYPES)}"
            raise RecipeError(f" has the unknown key {key!r}; {hint}")
        if type(item) is not _TYPES[key]:
            raise RecipeError(f".{key} = {item!r} is not of type {_TYPES[key].__name__}")
    if "from" not in values:
        raise RecipeError(" lacks from; write {from = 26000}: the vocabulary size of words alone")
    if values["from"] < 1 or values.get("max_words", 1) < 1:
        raise RecipeError(f" = {dict(values)!r} has a number below 1")
    return parsed_superwords(json.dumps(dict(values))).to_json()


def parsed_superwords(text: str) -> Superwords:
    """Return the values of the JSON that `superwords_of` returns."""
    values = json.loads(text)
    return Superwords(from_size=values.pop("from"), **values)


def learner_bytes(text_bytes: float) -> float:
    """Return about how many bytes of memory learning tokens of several words takes at most.

    The most that was measured is 2.4 bytes for each byte of text: 180 MB of English, 65,536 ids
    (docs/sizing.md).
    """
    return 2.5 * text_bytes
