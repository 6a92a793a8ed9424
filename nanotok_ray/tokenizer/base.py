"""The tokenizer that learning continues: its ids as the start of learning, and the new tokens."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.documents import as_documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import NewToken, NewTokens
from nanotok_ray.tokenizer.core_tables import EVERYTHING
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.foreign import check_continuable, continued_file
from nanotok_ray.tokenizer.huggingface import spelled_bytes
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.report import token_text
from nanotok_ray.tokenizer.tokenizer import Tokenizer

Batch = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]
"""The bytes of distinct spans back to back, their offsets [n + 1] and their counts [n]."""

Spans = Iterable[Batch]
"""Batches of distinct spans, which are iterated over twice."""


def base_of(tokenizer: Tokenizer) -> "Base":
    r"""Return a tokenizer as the start of learning.

    >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
    >>> base = base_of(tokenizer)
    >>> base.continued([(257, 108)]).encode("hell")
    [267]

    Raises:
        TokenizerError: It is not byte-level BPE that the core encodes, or has two ids of the same
            bytes.
    """
    model = tokenizer.model
    if isinstance(model, FileModel):
        check_continuable(model)
    elif model.duplicates():
        model.ranks()  # raises
    return Base(tokenizer)


@dataclass(frozen=True)
class Base:
    """A tokenizer that learning continues, which `base_of` has checked."""

    tokenizer: Tokenizer

    @property
    def num_ids(self) -> int:
        """The number of its ids, of which the first new token has the next."""
        return self.tokenizer.get_vocab_size()

    @property
    def count_pattern(self) -> str:
        """The pattern with which texts are counted as the tokenizer splits them."""
        model = self.tokenizer.model
        if isinstance(model, Model):
            return model.pattern
        assert model.tables is not None, "the core encodes"
        return model.tables.count_pattern

    def continued(self, merges: Iterable[Sequence[int]]) -> Tokenizer:
        """Return the tokenizer with further merges of pairs of ids.

        Raises:
            TokenizerError: The core cannot encode with the new merges.
        """
        model = self.tokenizer.model
        extend = continued_file if isinstance(model, FileModel) else Model.continued
        return Tokenizer(extend(model, merges))  # type: ignore[arg-type]

    def truncated(self, merges: NDArray[np.uint32], vocab_size: int) -> Tokenizer:
        """Return the tokenizer of this size with the first of further merges.

        Raises:
            TokenizerError: The size is below that of the base, or needs more merges.
        """
        highest = self.num_ids + len(merges)
        if not self.num_ids <= vocab_size <= highest:
            raise TokenizerError(
                f"cannot truncate to {vocab_size} ids: from {self.num_ids}, those of the base, to "
                f"{highest} (all merges) are possible; learn a larger tokenizer for more"
            )
        return self.continued(merges[: vocab_size - self.num_ids].tolist())

    @cached_property
    def tokens(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes of each id, none for ids that no text has, and their offsets.

        Special tokens of a file have the bytes that their names spell in it, so that no new token
        has such a name.
        """
        model = self.tokenizer.model
        texts = dict(model.text_tokens)
        if isinstance(model, FileModel):
            texts |= {n: spelled_bytes(name) or b"" for name, n in model.special_tokens.items()}
        tokens = as_documents([texts.get(number, b"") for number in range(self.num_ids)])
        return tokens.data, tokens.offsets


@dataclass(eq=False, slots=True)
class EncodedSpans:
    """Batches of spans as ids; the tokens of all occurrences are counted in the last iteration."""

    spans: Spans
    tokenizer: Tokenizer
    threads: int
    num_tokens: int = field(default=0, init=False)
    _encoder: _core.Encoder = field(init=False)

    def __post_init__(self) -> None:
        self._encoder = span_encoder(self.tokenizer)

    def __iter__(
        self,
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint64]]]:
        from nanotok_ray.counts import span_totals  # noqa: PLC0415 - needs pyarrow

        self.num_tokens = 0
        for data, offsets, counts in self.spans:
            ids, ends = self._encoder.encode_spans(data, offsets, threads=self.threads)
            self.num_tokens += span_totals(ends, counts).span_bytes  # with ids in place of bytes
            yield ids, ends, counts

    def used(self) -> NDArray[np.bool_]:
        """Return for each id whether a span contains it."""
        used = np.zeros(self.tokenizer.get_vocab_size(), dtype=np.bool_)
        for ids, _, _ in self:
            used[ids] = True
        return used


@dataclass(frozen=True, eq=False, slots=True)
class IdSpans:
    """Batches of spans whose bytes are ids, as in counts of segments."""

    spans: Spans

    def __iter__(
        self,
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint64]]]:
        for data, offsets, counts in self.spans:
            yield data.view("<u4"), offsets // _ID_BYTES, counts


_ID_BYTES: Final = 4
"""Bytes of an id in counts of pairs and segments."""


def pair_keys(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the numbers of pairs of ids from their bytes: left + (right << 32)."""
    return data.view("<u8")


def span_encoder(tokenizer: Tokenizer) -> _core.Encoder:
    """Return an encoder of single spans of a tokenizer that the core encodes."""
    model = tokenizer.model
    if isinstance(model, Model) and not model.continuations:
        return _core.Encoder(EVERYTHING, model.merge_array, byte_order=model.core_byte_order)
    assert model.tables is not None, "the core encodes"
    return model.tables.span_encoder()


def new_tokens(base: Base, tokenizer: Tokenizer, spans: Spans, *, threads: int) -> NewTokens:
    """Return the tokens that a continued tokenizer has beyond its base, and what the spans use.

    Args:
        base: the base.
        tokenizer: the continued tokenizer, whose further special tokens are left out.
        spans: the spans from which the merges were learned.
        threads: the number of threads.
    """
    texts = tokenizer.model.text_tokens
    numbers = [number for number in texts if number >= base.num_ids]
    tokens = as_documents([texts[number] for number in numbers])
    ids, ends = span_encoder(base.tokenizer).encode_spans(tokens.data, tokens.offsets)
    own, own_ends = span_encoder(tokenizer).encode_spans(tokens.data, tokens.offsets)
    rows = (ids[start:stop].tolist() for start, stop in pairwise(ends))
    made = (own[start:stop].tolist() for start, stop in pairwise(own_ends))
    used = EncodedSpans(spans, tokenizer, threads).used()
    return NewTokens(
        base_sha256=base.tokenizer.sha256,
        tokens=tuple(
            NewToken(
                id=number,
                bytes=base64.b64encode(texts[number]).decode(),
                text=token_text(texts[number]),
                base_ids=tuple(row),
            )
            for number, row in zip(numbers, rows, strict=True)
        ),
        unreachable=tuple(n for n, row in zip(numbers, made, strict=True) if row != [n]),
        unused=tuple(n for n in texts if n < base.num_ids and not used[n]),
    )


def check_same_pattern(base: Base, pattern: str) -> None:
    """Check that counts were made as a base splits texts.

    Raises:
        TokenizerError: Their pattern is another one.
    """
    if pattern != base.count_pattern:
        raise TokenizerError(
            f"the counts have the pattern {pattern!r:.200}, and the base splits by "
            f"{base.count_pattern!r:.200}: count the texts with the pattern of the base"
        )
