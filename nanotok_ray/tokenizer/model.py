"""A tokenizer as a value: pattern, merges and special tokens.

Ids 0..255 are the bytes, in order or in the numbering of another tokenizer; id 256 + k is the
token of merge k; special tokens have higher ids. A tokenizer that was continued has further merges
with ids after its special tokens. The constructor checks the model.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts import resolve_pattern
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.core_tables import CoreTables

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
    """The pair of ids of each merge, in order of priority."""
    special_tokens: Mapping[str, int] = field(hash=False)
    """Id of each special token by name, in the order of ids."""
    byte_order: bytes = field(default=IN_ORDER)
    """The bytes of ids 0..255; tokenizers of other tools can number them differently."""
    continuations: tuple[tuple[int, int], ...] = ()
    """A pair (k, id) for each time that the tokenizer was continued: merge k makes this id, and the
    merges after it the following ids.
    """
    beside: Mapping[str, bytes] = field(default_factory=dict, compare=False, hash=False)
    """Files of the folder that the tokenizer was read from, such as its chat template, by name."""
    added: AddedTokens | None = field(default=None, compare=False, hash=False)
    """The added tokens of the file that it was read from, with their flags."""
    token_ids: Sequence[int] = field(init=False, compare=False)
    """The id of each token of text, in increasing order."""
    tokens: tuple[bytes, ...] = field(init=False, compare=False)
    """The bytes of each token of text, in the order of `token_ids`."""

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
        token_ids = _token_ids(len(self.merges), self.continuations)
        object.__setattr__(self, "token_ids", token_ids)
        gaps = frozenset(range(token_ids[-1])) - {*token_ids} if self.continuations else frozenset()
        _check_merges(self.merges, token_ids, gaps)
        _check_special_tokens(self.special_tokens, gaps, after=token_ids[-1])
        object.__setattr__(self, "special_tokens", dict(self.special_tokens))
        object.__setattr__(self, "tokens", tuple(_tokens(self).values()))

    @property
    def text_tokens(self) -> Mapping[int, bytes]:
        """The bytes of every id that is not a special token."""
        return dict(zip(self.token_ids, self.tokens, strict=True))

    @property
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included: the size of an embedding."""
        return max([self.token_ids[-1], *self.special_tokens.values()]) + 1

    @property
    def merge_array(self) -> NDArray[np.uint32]:
        """The pair of ids of each merge, of shape (m, 2)."""
        return np.array(self.merges, dtype=np.uint32).reshape(len(self.merges), 2)

    @property
    def tables(self) -> CoreTables | None:
        """The tables of the core for a continued tokenizer; None: merge k makes id 256 + k."""
        if not self.continuations:
            return None
        numbering = np.array(self.token_ids, dtype=np.uint32)
        internal = np.zeros(self.token_ids[-1] + 1, dtype=np.uint32)
        internal[numbering] = np.arange(len(numbering))
        internal[:NUM_BYTES] = np.frombuffer(self.byte_order, dtype=np.uint8)
        numbering[internal[:NUM_BYTES]] = np.arange(NUM_BYTES)
        return CoreTables(
            pattern=self.pattern,
            merges=internal[self.merge_array],
            span_tokens=(),
            numbering=numbering,
        )

    @property
    def core_byte_order(self) -> bytes | None:
        """The byte order as the core accepts it: None if ids 0..255 are the bytes in order."""
        return None if self.byte_order == IN_ORDER else self.byte_order

    def truncated(self, vocab_size: int) -> "Model":
        r"""Return the model of the first merges, followed by the special tokens in the same order.

        The result equals the model that learning with this vocabulary size returns. Only merges of
        the last continuation, if there is one, can be left out.

        >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=((97, 98), (256, 99)),
        ...               special_tokens={"<|bos|>": 258})
        >>> smaller = model.truncated(258)
        >>> smaller.merges, smaller.special_tokens
        (((97, 98),), {'<|bos|>': 257})

        Raises:
            TokenizerError: The size exceeds that of the model, or is too small for 256 bytes and
                the special tokens.
        """
        before, first = self.continuations[-1] if self.continuations else (0, NUM_BYTES)
        names = [name for name, number in self.special_tokens.items() if number >= first]
        min_size = first + len(names)
        max_size = min_size + len(self.merges) - before
        if not min_size <= vocab_size <= max_size:
            raise TokenizerError(
                f"cannot truncate to {vocab_size} ids: from {min_size} ({first} ids and "
                f"{len(names)} special tokens) to {max_size} (all merges) are "
                "possible; learn a larger tokenizer for more"
            )
        num_merges = vocab_size - min_size
        kept = {name: n for name, n in self.special_tokens.items() if n < first}
        later = number_special_tokens(names, num_merges=num_merges, first=first)
        return Model(
            pattern=self.pattern,
            unicode_version=self.unicode_version,
            merges=self.merges[: before + num_merges],
            special_tokens=kept | later,
            byte_order=self.byte_order,
            continuations=self.continuations if num_merges else self.continuations[:-1],
        )

    def continued(self, merges: Iterable[Sequence[int]]) -> "Model":
        r"""Return the model with further merges, whose ids follow the highest id.

        >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=((97, 98),),
        ...               special_tokens={"<|bos|>": 257})
        >>> model.continued([(256, 99)]).text_tokens[258]
        b'abc'
        """
        pairs = tuple((int(left), int(right)) for left, right in merges)
        has_gap = bool(pairs) and self.num_ids > self.token_ids[-1] + 1
        start = ((len(self.merges), self.num_ids),) if has_gap else ()
        return replace(self, merges=self.merges + pairs, continuations=self.continuations + start)

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
        return self.tokens[bisect_left(self.token_ids, number)]

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
        return dict(zip(self.tokens, self.token_ids, strict=True))

    def duplicates(self) -> list[tuple[int, int]]:
        """Return (lowest id, other id) for ids with the same bytes; a learned model has none.

        >>> model = Model(pattern="a", unicode_version="16.0.0", special_tokens={},
        ...               merges=((97, 98), (98, 99), (256, 99), (97, 257)))
        >>> model.duplicates()
        [(258, 259)]
        """
        first: dict[bytes, int] = {}
        pairs = [(first.setdefault(token, n), n) for n, token in self.text_tokens.items()]
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


def _token_ids(num_merges: int, continuations: Sequence[tuple[int, int]]) -> Sequence[int]:
    """Return the ids of text: those of bytes and of merges.

    Raises:
        TokenizerError: A continuation is out of order.
    """
    if not continuations:
        return range(NUM_BYTES + num_merges)
    runs, before, first = [], -NUM_BYTES, 0
    for start, number in (*continuations, (num_merges, MAX_ID)):
        if start <= before or number <= first + start - before:
            raise TokenizerError(
                f"merge {start} cannot make id {number}: {len(continuations)} continuations, in "
                f"order, leave ids out before one of {num_merges} merges"
            )
        runs.append(range(first, first + start - before))
        before, first = start, number
    return tuple(chain.from_iterable(runs))


def _check_merges(
    merges: Sequence[tuple[int, int]], token_ids: Sequence[int], gaps: Collection[int]
) -> None:
    seen: dict[tuple[int, int], int] = {}
    for number, pair in enumerate(merges):
        limit = token_ids[NUM_BYTES + number]
        if not all(0 <= part < limit and part not in gaps for part in pair):
            raise TokenizerError(f"merge {number} of {pair} must join two ids below {limit}")
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


def _check_special_tokens(
    special_tokens: Mapping[str, int], gaps: Collection[int], *, after: int
) -> None:
    for name, number in special_tokens.items():
        check_name(name, number)
        if not after < number <= MAX_ID and number not in gaps:
            raise TokenizerError(
                f"the special token {name!r} has id {number}: {after + 1} to {MAX_ID} are free"
            )
    for (first, low), (second, high) in pairwise(special_tokens.items()):
        if low >= high:
            raise TokenizerError(
                f"special tokens must be in order of ids: {first!r} {low}, {second!r} {high}"
            )


def _tokens(model: Model) -> dict[int, bytes]:
    tokens = {number: bytes([value]) for number, value in enumerate(model.byte_order)}
    total = NUM_BYTES
    numbers = model.token_ids[NUM_BYTES:]
    for number, (left, right) in zip(numbers, model.merges, strict=True):
        length = len(tokens[left]) + len(tokens[right])
        total += length
        check_token_bytes(length, what=f"token {number}")
        check_vocabulary_bytes(total, what=f"tokens up to {number}")
        tokens[number] = tokens[left] + tokens[right]
    return tokens


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


def number_special_tokens(
    names: Sequence[str], *, num_merges: int, first: int = NUM_BYTES
) -> dict[str, int]:
    """Return the id of each special token: the ids that follow those of the merges from `first` on.

    >>> number_special_tokens(["<|bos|>", "<|end|>"], num_merges=3)
    {'<|bos|>': 259, '<|end|>': 260}

    Raises:
        TokenizerError: A name occurs twice.
    """
    numbers: Iterator[int] = iter(range(first + num_merges, MAX_ID + 1))
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
