"""A tokenizer as a value: pattern, merges and special tokens.

Ids 0..255 are the bytes, in order or in the numbering of another tokenizer; id 256 + k is the
token of merge k; special tokens have higher ids. The constructor checks the model.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts import resolve_pattern
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.added_tokens import AddedTokens

if TYPE_CHECKING:
    from typing_extensions import Self

NUM_BYTES = 256
IN_ORDER = bytes(range(NUM_BYTES))
"""The bytes of ids 0..255 of every tokenizer that is learned here."""
MAX_ID = 2**31 - 1
"""The highest id: other formats store ids as int32."""
MAX_TOKEN_BYTES = 2**17
"""Limit of the bytes of a token, which every occurrence of its id decodes to. The longest tokens
of well-known models have 128.
"""
MAX_TOKENS = 2**21
"""Larger vocabularies of other tools are refused before their merges are computed."""
MAX_UNUSED_IDS = 2**20
"""Limit of ids without a token below the highest id; cl100k has 16."""
MAX_NAME_BYTES = 2**10
"""Limit of the bytes of the name of a special token."""
MAX_VOCABULARY_BYTES = 2**26
"""Limit of the bytes of all tokens together; merges that double each other grow exponentially.
The 200,000 tokens of Llama 4 have 1.4 million.
"""


class IdTable(ABC):
    """The ids of a tokenizer: the bytes of those of text, and the names of special tokens."""

    __slots__ = ()

    special_tokens: Mapping[str, int]
    """Id of each special token by name, in the order of ids."""

    @property
    @abstractmethod
    def text_tokens(self) -> Mapping[int, bytes]:
        """The bytes of every id that is not a special token, in the order of ids."""

    @abstractmethod
    def extended(self, names: Sequence[str]) -> "Self":
        """Return the tokenizer with more special tokens; existing ids stay the same."""

    @abstractmethod
    def without(self, names: Collection[str]) -> "Self":
        """Return the tokenizer without some special tokens; other ids stay the same."""

    @property
    @abstractmethod
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included: the size of an embedding."""

    @property
    def id_dtype(self) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
        """The narrower of uint16 and uint32 that holds every id, special tokens included."""
        return np.dtype(np.uint16) if self.num_ids <= 2**16 else np.dtype(np.uint32)

    @property
    def id_bytes(self) -> int:
        """Bytes of an id in memory and on disk: 2 or 4."""
        return self.id_dtype.itemsize

    @property
    def num_unused_ids(self) -> int:
        """The number of ids below the highest that have no token."""
        return self.num_ids - len(self.text_tokens) - len(self.special_tokens)

    def token_lengths(self) -> NDArray[np.int32]:
        """Return the number of bytes of each id, as int32; 0 for special tokens."""
        lengths = np.zeros(self.num_ids, dtype=np.int32)
        tokens = self.text_tokens
        lengths[[*tokens]] = [len(token) for token in tokens.values()]
        return lengths

    def special_flags(self) -> NDArray[np.bool_]:
        """Return for each id whether it is that of a special token."""
        flags = np.zeros(self.num_ids, dtype=np.bool_)
        flags[[*self.special_tokens.values()]] = True
        return flags


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Model(IdTable):
    r"""A tokenizer as a value.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=((97, 98),),
    ...               special_tokens={"<|bos|>": 257})
    >>> model.num_ids, model.token(256)
    (258, b'ab')

    Raises:
        TokenizerError: A merge or a special token is invalid; the message names it and the reason.
    """

    pattern: str
    """The regular expression that cuts texts into spans."""
    unicode_version: str
    """Version of the Unicode tables that define the classes of the pattern."""
    merges: tuple[tuple[int, int], ...]
    """The pair of each merge, in order of priority."""
    special_tokens: Mapping[str, int] = field(hash=False)
    """Id of each special token by name, in the order of ids."""
    byte_order: bytes = field(default=IN_ORDER)
    """The bytes of ids 0..255; tokenizers of other tools can number them differently."""
    beside: Mapping[str, bytes] = field(default_factory=dict, compare=False, hash=False)
    """Files of the folder that the tokenizer was read from, such as its chat template, by name."""
    added: AddedTokens | None = field(default=None, compare=False, hash=False)
    """The added tokens of the file that it was read from, with their flags."""
    tokens: tuple[bytes, ...] = field(init=False, compare=False)
    """The bytes of every id that is not a special token."""

    def __repr__(self) -> str:
        return (
            f"<Model: {len(self.merges):,} merges, {len(self.special_tokens):,} special tokens, "
            f"pattern {self.pattern[:40]!r}>"
        )

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.unicode_version, re.ASCII):
            raise TokenizerError(
                f"{self.unicode_version!r} is not a Unicode version such as '16.0.0'"
            )
        _check_text(self.pattern, what="the pattern")
        _check_byte_order(self.byte_order)
        _check_merges(self.merges)
        _check_special_tokens(self.special_tokens, lowest=NUM_BYTES + len(self.merges))
        object.__setattr__(self, "special_tokens", dict(self.special_tokens))
        object.__setattr__(self, "tokens", _tokens(self.merges, self.byte_order))

    @property
    def text_tokens(self) -> Mapping[int, bytes]:
        """The bytes of every id that is not a special token."""
        return dict(enumerate(self.tokens))

    @property
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included: the size of an embedding."""
        return max(self.special_tokens.values(), default=len(self.tokens) - 1) + 1

    @property
    def merge_array(self) -> NDArray[np.uint32]:
        """The merges in the form that the core accepts, of shape (m, 2)."""
        return np.array(self.merges, dtype=np.uint32).reshape(len(self.merges), 2)

    @property
    def core_byte_order(self) -> bytes | None:
        """The byte order as the core accepts it: None if ids 0..255 are the bytes in order."""
        return None if self.byte_order == IN_ORDER else self.byte_order

    def truncated(self, vocab_size: int) -> "Model":
        r"""Return the model of the first merges, followed by the special tokens in the same order.

        The result equals the model that learning with this vocabulary size returns.

        >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=((97, 98), (256, 99)),
        ...               special_tokens={"<|bos|>": 258})
        >>> smaller = model.truncated(258)
        >>> smaller.merges, smaller.special_tokens
        (((97, 98),), {'<|bos|>': 257})

        Raises:
            TokenizerError: The size exceeds that of the model, or is too small for 256 bytes and
                the special tokens.
        """
        min_size = NUM_BYTES + len(self.special_tokens)
        max_size = min_size + len(self.merges)
        if not min_size <= vocab_size <= max_size:
            raise TokenizerError(
                f"cannot truncate to {vocab_size} ids: from {min_size} (256 bytes and "
                f"{len(self.special_tokens)} special tokens) to {max_size} (all merges) are "
                "possible; learn a larger tokenizer for more"
            )
        num_merges = vocab_size - min_size
        return Model(
            pattern=self.pattern,
            unicode_version=self.unicode_version,
            merges=self.merges[:num_merges],
            special_tokens=number_special_tokens([*self.special_tokens], num_merges=num_merges),
            byte_order=self.byte_order,
        )

    def extended(self, names: Sequence[str]) -> "Model":
        r"""Return the model with more special tokens; existing ids stay the same.

        Names that the model lacks receive the ids after the last one, in the order of `names`.

        >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=(),
        ...               special_tokens={"<|bos|>": 256})
        >>> model.extended(["<image>", "<|bos|>"]).special_tokens
        {'<|bos|>': 256, '<image>': 257}

        Raises:
            TokenizerError: `names` is a single string, or contains an invalid name.
        """
        if isinstance(names, str):
            raise TokenizerError(f"names is one name, {names!r}: put it into a list")
        missing = dict.fromkeys(name for name in names if name not in self.special_tokens)
        if not missing:
            return self
        added = {name: number for number, name in enumerate(missing, self.num_ids)}
        return replace(self, special_tokens={**self.special_tokens, **added})

    def without(self, names: Collection[str]) -> "Model":
        """Return the model without the special tokens of these names; other ids stay the same."""
        remaining = {
            name: number for name, number in self.special_tokens.items() if name not in names
        }
        return replace(self, special_tokens=remaining)

    def token(self, number: int) -> bytes:
        """Return the bytes of an id that is not a special token."""
        return self.tokens[number]

    def ranks(self) -> dict[bytes, int]:
        """Return the id of each token by its bytes, the form in which other formats store merges.

        Raises:
            TokenizerError: Two ids have the same bytes.
        """
        for first, number in self.duplicates():
            raise TokenizerError(
                f"ids {first} and {number} both stand for {self.token(number)!r}: formats keyed by "
                "the bytes of tokens cannot hold this tokenizer"
            )
        return {token: number for number, token in enumerate(self.tokens)}

    def duplicates(self) -> list[tuple[int, int]]:
        """Return (lowest id, other id) for ids with the same bytes; a learned model has none.

        >>> model = Model(pattern="a", unicode_version="16.0.0", special_tokens={},
        ...               merges=((97, 98), (98, 99), (256, 99), (97, 257)))
        >>> model.duplicates()
        [(258, 259)]
        """
        first: dict[bytes, int] = {}
        pairs = [(first.setdefault(token, n), n) for n, token in enumerate(self.tokens)]
        return [pair for pair in pairs if pair[0] != pair[1]]


def _check_text(text: str, *, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(f"{what} {text!r} holds a lone surrogate") from error


def _check_byte_order(byte_order: bytes) -> None:
    if len(byte_order) != NUM_BYTES or len(set(byte_order)) != NUM_BYTES:
        raise TokenizerError(
            f"ids 0 to {NUM_BYTES - 1} must be each byte once: the byte order has "
            f"{len(byte_order)} bytes, {len(set(byte_order))} of them different"
        )


def _check_merges(merges: Sequence[tuple[int, int]]) -> None:
    seen: dict[tuple[int, int], int] = {}
    for number, pair in enumerate(merges):
        if not all(0 <= part < NUM_BYTES + number for part in pair):
            raise TokenizerError(
                f"merge {number} of {pair} must join two ids below {NUM_BYTES + number}"
            )
        if seen.setdefault(pair, number) != number:
            raise TokenizerError(f"merge {number} repeats merge {seen[pair]}: {pair}")


def check_name(name: str, number: int) -> None:
    """Check the name of a special token.

    Raises:
        TokenizerError: The name is empty, too long, or holds a lone surrogate.
    """
    _check_text(name, what="the special token")
    if not name:
        raise TokenizerError("a special token has an empty name")
    num_bytes = len(name.encode())
    if num_bytes > MAX_NAME_BYTES:
        raise TokenizerError(
            f"the name of the special token {number} has {num_bytes:,} bytes: the limit is "
            f"{MAX_NAME_BYTES:,}"
        )


def _check_special_tokens(special_tokens: Mapping[str, int], *, lowest: int) -> None:
    for name, number in special_tokens.items():
        check_name(name, number)
        if not lowest <= number <= MAX_ID:
            raise TokenizerError(
                f"the special token {name!r} has id {number}: {lowest} to {MAX_ID} are free"
            )
    for (first, low), (second, high) in pairwise(special_tokens.items()):
        if low >= high:
            raise TokenizerError(
                f"special tokens must be in order of ids: {first!r} {low}, {second!r} {high}"
            )


def _tokens(merges: Sequence[tuple[int, int]], byte_order: bytes) -> tuple[bytes, ...]:
    tokens = [bytes([value]) for value in byte_order]
    total = NUM_BYTES
    for number, (left, right) in enumerate(merges, start=NUM_BYTES):
        length = len(tokens[left]) + len(tokens[right])
        total += length
        check_token_bytes(length, what=f"token {number}")
        check_vocabulary_bytes(total, what=f"tokens up to {number}")
        tokens.append(tokens[left] + tokens[right])
    return tuple(tokens)


def check_token_bytes(num_bytes: int, *, what: str) -> None:
    """Check the length of a token.

    Raises:
        TokenizerError: The token is too long.
    """
    if num_bytes > MAX_TOKEN_BYTES:
        raise TokenizerError(
            f"{what} has {num_bytes:,} bytes: the limit is {MAX_TOKEN_BYTES:,}; learning with "
            "max_token_bytes makes no such token"
        )


def check_vocabulary_bytes(num_bytes: int, *, what: str) -> None:
    """Check the length of all tokens together.

    Raises:
        TokenizerError: There are too many bytes.
    """
    if num_bytes > MAX_VOCABULARY_BYTES:
        raise TokenizerError(
            f"{what} have {num_bytes:,} bytes: the limit is {MAX_VOCABULARY_BYTES:,}"
        )


def check_unused(model: IdTable) -> None:
    """Refuse a model with too many unused ids: token_bytes.pt has an entry for each id.

    Raises:
        TokenizerError: The special tokens leave more than MAX_UNUSED_IDS ids unused.
    """
    if model.num_unused_ids > MAX_UNUSED_IDS:
        raise TokenizerError(
            f"special tokens leave {model.num_unused_ids:,} ids between {len(model.text_tokens)} "
            f"and {model.num_ids - 1} unused: at most {MAX_UNUSED_IDS:,} can be saved, as some "
            "files have an entry for each"
        )


def number_special_tokens(names: Sequence[str], *, num_merges: int) -> dict[str, int]:
    """Return the id of each special token: the ids that follow the last merge.

    >>> number_special_tokens(["<|bos|>", "<|end|>"], num_merges=3)
    {'<|bos|>': 259, '<|end|>': 260}

    Raises:
        TokenizerError: A name occurs twice.
    """
    numbers: Iterator[int] = iter(range(NUM_BYTES + num_merges, MAX_ID + 1))
    numbered = dict(zip(names, numbers, strict=False))
    if len(numbered) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TokenizerError(f"the special token {twice!r} is given twice; name it once")
    return numbered


def make_model(
    merges: Iterable[Sequence[int]], *, pattern: str, special_tokens: Sequence[str]
) -> Model:
    """Return the model of learned merges and the names of special tokens.

    Raises:
        TokenizerError: A merge or a special token is invalid.
    """
    pairs = tuple((int(left), int(right)) for left, right in merges)
    return Model(
        pattern=resolve_pattern(pattern),
        unicode_version=_core.UNICODE_VERSION,
        merges=pairs,
        special_tokens=number_special_tokens(special_tokens, num_merges=len(pairs)),
    )
