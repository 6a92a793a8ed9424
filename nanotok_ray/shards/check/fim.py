"""The check of documents that were rearranged for filling in the middle: the ids of each part."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents
from nanotok_ray.formats import FimSettings, Ids
from nanotok_ray.shards.fim import choose, cuts_of
from nanotok_ray.tokenizer import Tokenizer

PARTS: Final = ("prefix", "middle", "suffix")
OTHER_PARTS = "its special tokens of prefix, middle and suffix are not where they must be"


class ExpectedPart(NamedTuple):
    """A part of a rearranged document, in the order of its ids."""

    tokens: tuple[int, ...]
    """The ids of the special tokens before it."""
    number: int
    """Its number in the text: 0, 1 or 2."""
    text: npt.NDArray[np.uint8]


class FimCheck:
    """Says which parts a text must have, and divides its ids by them."""

    def __init__(self, settings: FimSettings, tokenizer: Tokenizer) -> None:
        """Store the rule and the ids of the special tokens."""
        self._settings = settings
        self._tokens = [tokenizer.encode_special(name) for name in settings.tokens]

    def parts(self, text: npt.NDArray[np.uint8]) -> list[ExpectedPart] | None:
        """Return the parts of a text in the order of its ids; None if it is not rearranged."""
        offsets = np.array([0, len(text)], dtype=np.int64)
        choice = choose(Documents(data=text, offsets=offsets), self._settings)
        if not len(choice.numbers):
            return None
        first, last = cuts_of(text, choice.places[0].tolist())
        texts = text[:first], text[first:last], text[last:]
        return [
            ExpectedPart(tuple(self._tokens[token] for token in tokens), number, texts[number])
            for tokens, number in choice.form(0)
        ]


def divided(
    ids: Ids, parts: Sequence[ExpectedPart], token_at: Callable[[Ids, int], int | None]
) -> list[Ids] | None:
    """Return the ids of each part without special tokens before it.

    The result is None if these are elsewhere, or if a token crosses the border of a part.
    `token_at` returns the index of the token that begins at a byte.
    """
    found = []
    for part in parts:
        marks = len(part.tokens)
        if tuple(ids[:marks].tolist()) != part.tokens:
            return None
        size = token_at(ids[marks:], len(part.text))
        if size is None:
            return None
        found.append(ids[marks : marks + size])
        ids = ids[marks + size :]
    return None if len(ids) else found
