"""The names of special tokens that texts can spell, and what finds them in a text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Names = Mapping[str, int]
"""The id of each name."""

CONTEXT_FLAGS = ("single_word", "lstrip", "rstrip")
"""The flags of an added token by which the text around it matters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedToken:
    """An added token of a tokenizer.json."""

    content: str
    id: int
    is_special: bool = False
    is_normalized: bool = False
    """Whether it is searched for in normalized text."""
    context_flag: str | None = None
    """The first flag of `CONTEXT_FLAGS` that is set."""


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
    def of(cls, tokens: Sequence[AddedToken], *, has_normalizer: bool) -> "AddedTokens":
        """Return the names by the added tokens of a tokenizer.json and their flags.

        >>> AddedTokens.of([AddedToken(content="<think>", id=5)], has_normalizer=False)
        AddedTokens(passes=({'<think>': 5},), ordinary=frozenset({'<think>'}), reason='')
        """
        passes = (
            {token.content: token.id for token in tokens if token.is_normalized is is_second}
            for is_second in (False, True)
        )
        return cls(
            passes=tuple(filter(None, passes)),
            ordinary=frozenset(token.content for token in tokens if not token.is_special),
            reason=next(_reasons(tokens, has_normalizer=has_normalizer), ""),
        )


def _reasons(tokens: Sequence[AddedToken], *, has_normalizer: bool) -> Iterator[str]:
    """Yield why the core cannot find the names."""
    for token in tokens:
        if token.context_flag is not None:
            yield f"the added token {token.content!r:.60} has {token.context_flag} = true"
        if has_normalizer and token.is_normalized:
            yield f"the added token {token.content!r:.60} is searched for in normalized text"
