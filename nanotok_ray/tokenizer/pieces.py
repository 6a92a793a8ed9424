"""Special tokens that a text spells, by tiktoken's rules, and the offsets of ids in a text."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError

Special = Literal["all"] | Collection[str]
"""Names of special tokens, or "all" for all special tokens of the tokenizer."""

Piece = tuple[str, bool]
"""A part of a text, and whether it is the name of a special token that becomes its id."""


class EncodedText(NamedTuple):
    """The ids of a text, and the position of each id in the text."""

    ids: list[int]
    byte_offsets: list[tuple[int, int]]
    """Start and end of each id in the UTF-8 encoding of the text, in bytes."""
    char_offsets: list[tuple[int, int]]
    """Start and end of each id in characters; ids that share a character overlap."""


class SpecialRules:
    """The special tokens that a text can spell, and those that it must not spell.

    >>> rules = SpecialRules({"<|bos|>": 256, "<|end|>": 257}, allowed={"<|bos|>"}, disallowed=())
    >>> list(rules.pieces("a<|bos|><|end|>"))
    [('a', False), ('<|bos|>', True), ('<|end|>', False)]
    """

    def __init__(
        self,
        special_tokens: Mapping[str, int],
        *,
        allowed: Special | None,
        disallowed: Special | None,
    ) -> None:
        """Resolve the names; None for both treats every name as text.

        Raises:
            TokenizerError: An argument is a name rather than a set of names.
        """
        for name, value in (("allowed_special", allowed), ("disallowed_special", disallowed)):
            if isinstance(value, str) and value != "all":
                raise TokenizerError(
                    f'{name} is one name, {value!r}: pass a set of names, or "all"'
                )
        known = frozenset(special_tokens)
        chosen = known if allowed == "all" else frozenset(allowed or ())
        self._allowed = chosen & known
        if disallowed == "all" or (disallowed is None and allowed is not None):
            self._disallowed = known - chosen
        else:
            self._disallowed = frozenset(disallowed or ())

    def pieces(self, text: str) -> Iterator[Piece]:
        """Yield the parts of a text: the names of special tokens, and the text between them.

        If the name of one special token begins with that of another, the longest match is used.

        Raises:
            TokenizerError: The text spells a special token that is disallowed.
        """
        if self._disallowed and (match := _finder(self._disallowed).search(text)):
            name = match.group()
            raise TokenizerError(
                f"the text spells the special token {name!r} at character {match.start()}, which "
                f"is disallowed: pass allowed_special={{{name!r}}} to encode it as the token, or "
                "disallowed_special=() to encode it as text"
            )
        start = 0
        for match in _finder(self._allowed).finditer(text) if self._allowed else ():
            if start < match.start():
                yield text[start : match.start()], False
            yield match.group(), True
            start = match.end()
        if start < len(text):
            yield text[start:], False


@lru_cache(maxsize=32)
def _finder(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def offsets_in(data: bytes, lengths: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start and end of parts of a UTF-8 text of these lengths, in bytes and characters.

    >>> for offsets in offsets_in("aé!".encode(), [2, 1, 1]):
    ...     print(offsets.tolist())
    [[0, 2], [2, 3], [3, 4]]
    [[0, 2], [1, 2], [2, 3]]
    """
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    starts = ends - np.asarray(lengths, dtype=np.int64)
    is_first = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80  # noqa: PLR2004 - UTF-8
    number = np.cumsum(is_first)
    byte_offsets = np.stack([starts, ends], axis=1)
    return byte_offsets, np.stack([number[starts] - 1, number[ends - 1]], axis=1)


def char_offsets(text: str, tokens: Sequence[bytes]) -> list[tuple[int, int]] | None:
    r"""Return start and end of tokens in a text in characters, or None if they are not the text.

    >>> char_offsets("aé", [b"a", b"\xc3", b"\xa9"]), char_offsets("a", [b"b"])
    ([(0, 1), (1, 2), (1, 2)], None)
    """
    data = text.encode()
    if b"".join(tokens) != data:
        return None
    _, in_chars = offsets_in(data, [*map(len, tokens)])
    return [(start, end) for start, end in in_chars.tolist()]
