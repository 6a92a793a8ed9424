"""The names of special tokens that texts can spell, and what finds them in a text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nanotok_ray.tokenizer.file_model import HUGGING_FACE_FILE, SENTENCEPIECE_FILE, FileModel
from nanotok_ray.tokenizer.model import Model

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
    special: frozenset[str]
    """The names that have another meaning than text. Other added tokens, such as `<think>` of some
    models, are a part of what a model writes.
    """
    reason: str = ""
    """Why only the library of the tokenizer finds the names; empty if the core does."""


def added_tokens_of(model: Model | FileModel) -> AddedTokens:
    """Return the names that a tokenizer recognizes by the rules of its library.

    For a tokenizer.json, these are the added tokens of the file with their flags; for all others
    the special tokens, as by `allowed_special="all"` of tiktoken.
    """
    if not isinstance(model, FileModel) or model.description.file != HUGGING_FACE_FILE:
        names = model.special_tokens
        is_piece_model = (
            isinstance(model, FileModel) and model.description.file == SENTENCEPIECE_FILE
        )
        reason = "sentencepiece matches user-defined symbols only" if is_piece_model else ""
        return AddedTokens(passes=(names,), special=frozenset(names), reason=reason)
    contents = json.loads(model.data)
    tokens: list[Mapping[str, Any]] = contents.get("added_tokens") or []
    return AddedTokens(
        passes=tuple(
            {one["content"]: one["id"] for one in tokens if _is_normalized(one) is is_second}
            for is_second in (False, True)
        ),
        special=frozenset(one["content"] for one in tokens if one.get("special")),
        reason=next(_reasons(tokens, has_normalizer=bool(contents.get("normalizer"))), ""),
    )


def _is_normalized(token: Mapping[str, Any]) -> bool:
    return bool(token.get("normalized", not token.get("special")))


def _reasons(tokens: list[Mapping[str, Any]], *, has_normalizer: bool) -> Iterator[str]:
    """Yield why the core cannot find the names."""
    for token in tokens:
        flag = next((name for name in _CONTEXT_FLAGS if token.get(name)), None)
        if flag is not None:
            yield f"the added token {token['content']!r:.60} has {flag} = true"
        if has_normalizer and _is_normalized(token):
            yield f"the added token {token['content']!r:.60} is searched for in normalized text"
