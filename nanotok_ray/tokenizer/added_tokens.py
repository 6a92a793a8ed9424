"""The names of special tokens that texts can spell, and what finds them in a text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Names = Mapping[str, int]
"""The id of each name."""

_CONTEXT_FLAGS = ("single_word", "lstrip", "rstrip")
"""The flags of an added token by which the text around it matters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedTokens:
    """The names that a tokenizer recognizes in a text."""

    passes: tuple[Names, ...]
    """The names that the core finds. Those of the second pass are searched for in the text between
    those of the first; in a pass, matches are leftmost, and the longest at a position.
    """
    ordinary: frozenset[str] = frozenset()
    """Those that models write as text, such as `<think>`."""
    reason: str = ""
    """Why only the library of the tokenizer finds the names; empty if the core does."""

    @classmethod
    def of_contents(cls, contents: Mapping[str, Any]) -> "AddedTokens":
        """Return the names by the added tokens of a tokenizer.json and their flags.

        >>> think = {"id": 5, "content": "<think>", "special": False, "normalized": False}
        >>> AddedTokens.of_contents({"added_tokens": [think]})
        AddedTokens(passes=({'<think>': 5},), ordinary=frozenset({'<think>'}), reason='')
        """
        tokens: Sequence[Mapping[str, Any]] = contents.get("added_tokens") or ()
        passes = (
            {one["content"]: one["id"] for one in tokens if _is_normalized(one) is is_second}
            for is_second in (False, True)
        )
        return cls(
            passes=tuple(filter(None, passes)),
            ordinary=frozenset(one["content"] for one in tokens if not one.get("special")),
            reason=next(_reasons(tokens, has_normalizer=bool(contents.get("normalizer"))), ""),
        )


def _is_normalized(token: Mapping[str, Any]) -> bool:
    return bool(token.get("normalized", not token.get("special")))


def _reasons(tokens: Sequence[Mapping[str, Any]], *, has_normalizer: bool) -> Iterator[str]:
    """Yield why the core cannot find the names."""
    for token in tokens:
        flag = next((name for name in _CONTEXT_FLAGS if token.get(name)), None)
        if flag is not None:
            yield f"the added token {token['content']!r:.60} has {flag} = true"
        if has_normalizer and _is_normalized(token):
            yield f"the added token {token['content']!r:.60} is searched for in normalized text"
