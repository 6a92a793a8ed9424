r"""The vocabulary of a tokenizer: tokens in the order of their ids, their lengths and merges."""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.model import NUM_BYTES
from nanotok_ray.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Self

_SEVERAL_WORDS = re.compile(r"\S +\S")
_BYTE_ESCAPE = re.compile(rb"\\(\\|x[0-9A-Fa-f]{2})")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenView:
    """A token with its merge."""

    id: int
    token: bytes
    """The bytes of the token; for a special token, its name."""
    is_special: bool = False
    merge: int | None = None
    """The number of its merge, counted from 0; None: a byte or a special token."""
    pair: tuple[int, int] | None = None
    """The two ids that were merged."""
    parts_of: tuple[int, ...] = ()
    """The ids of the tokens that were merged from this one, in order."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokens of a tokenizer.

    >>> vocabulary = Vocabulary.of(Tokenizer.train_from_iterator(["hello hello"], vocab_size=267))
    >>> vocabulary.tokens[256:], vocabulary.length_counts
    ((b'el', b'hel'), {1: 256, 2: 1, 3: 1})
    """

    tokens: tuple[bytes, ...]
    """The tokens of text by id; empty for other ids."""
    num_bytes: int = NUM_BYTES
    """The number of tokens at the beginning that are single bytes, which merges follow; 0: the
    vocabulary has no merges.
    """
    pairs: Mapping[int, tuple[int, int]] | None = None
    """The pair that is merged to each id, in the order of the merges; None: unknown."""
    special_tokens: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Self":
        """Return the vocabulary of a tokenizer."""
        model, special = tokenizer.model, tokenizer.special_tokens
        texts = model.text_tokens
        size = model.num_ids if isinstance(model, FileModel) else model.token_ids[-1] + 1
        tokens = tuple(texts.get(number, b"") for number in range(size))
        if isinstance(model, FileModel):
            return cls(tokens=tokens, num_bytes=0, special_tokens=special)
        pairs = dict(zip(model.token_ids[NUM_BYTES:], model.merges, strict=True))
        return cls(tokens=tokens, pairs=pairs, special_tokens=special)

    @cached_property
    def merged(self) -> list[int]:
        """The ids of tokens of text after the bytes, which are those of the merges if known."""
        return [n for n, token in enumerate(self.tokens) if token and n >= self.num_bytes]

    @cached_property
    def length_counts(self) -> dict[int, int]:
        """The number of tokens of each length in bytes, in increasing order."""
        counts: dict[int, int] = {}
        for token in filter(None, self.tokens):
            counts[len(token)] = counts.get(len(token), 0) + 1
        return dict(sorted(counts.items()))

    @property
    def mean_length(self) -> float:
        """The mean number of bytes of a token."""
        return sum(map(len, self.tokens)) / max(1, sum(map(bool, self.tokens)))

    def longest(self, limit: int) -> list[int]:
        """Return the ids of the longest tokens; of equal lengths the lowest first."""
        order = sorted(
            range(len(self.tokens)), key=lambda number: (-len(self.tokens[number]), number)
        )
        return order[:limit]

    @cached_property
    def not_utf8(self) -> list[int]:
        """The ids of tokens of several bytes that are not valid UTF-8: parts of characters."""
        return [
            number
            for number, token in enumerate(self.tokens)
            if number >= self.num_bytes and not _is_utf8(token)
        ]

    @cached_property
    def superwords(self) -> NDArray[np.bool_]:
        """Whether the token of each id has several words: text, spaces, and text."""
        texts = (token.decode(errors="replace") for token in self.tokens)
        return np.array([bool(_SEVERAL_WORDS.search(text)) for text in texts], dtype=np.bool_)

    @property
    def num_superwords(self) -> int:
        r"""The number of tokens of several words.

        >>> Vocabulary(tokens=(b"of the", b" the", b"a  b", b"a \n", b"", b"a\n b")).num_superwords
        2
        """
        return int(self.superwords.sum())

    @property
    def superword_share(self) -> float:
        """The share of tokens of several words among the tokens of text."""
        return self.num_superwords / max(1, sum(map(bool, self.tokens)))

    def view(self, number: int) -> TokenView:
        """Return the token of an id with its merge.

        Raises:
            TokenizerError: The id does not exist.
        """
        for name, special_id in self.special_tokens.items():
            if special_id == number:
                return TokenView(id=number, token=name.encode(), is_special=True)
        if not 0 <= number < len(self.tokens):
            highest = max([len(self.tokens) - 1, *self.special_tokens.values()])
            raise TokenizerError(f"there is no id {number}: the ids are 0 to {highest}")
        pairs = self.pairs or {}
        is_merged = number >= self.num_bytes
        users = [user for user, pair in pairs.items() if number in pair]
        return TokenView(
            id=number,
            token=self.tokens[number],
            merge=bisect_left(self.merged, number) if is_merged else None,
            pair=pairs.get(number),
            parts_of=tuple(users),
        )

    def number_of(self, text: str) -> int:
        r"""Return the id of a token by its name, its text, or its text with `\xNN`.

        Raises:
            TokenizerError: No token has this text.
        """
        if text in self.special_tokens:
            return self.special_tokens[text]
        spellings: Sequence[bytes] = [text.encode(errors="surrogateescape"), token_bytes_of(text)]
        for spelling in spellings:
            if spelling in self.tokens:
                return self.tokens.index(spelling)
        raise TokenizerError(
            f"no token is spelled {text!r}: spaces count, and a byte that is not UTF-8 is "
            r"written \xNN"
        )


def token_bytes_of(text: str) -> bytes:
    r"""Return the bytes of a token from its text; `\xNN` is a byte, and `\\` a backslash.

    >>> token_bytes_of(" na\\xc3\\xafve\\\\") == " naïve\\".encode()
    True
    """
    data = text.encode(errors="surrogateescape")
    return _BYTE_ESCAPE.sub(
        lambda match: b"\\" if match[1] == b"\\" else bytes.fromhex(match[1][1:].decode()), data
    )


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True
