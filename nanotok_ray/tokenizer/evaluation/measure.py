"""Tokens of texts by tokenizer and label, use of ids, and overlap of vocabularies."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import Documents
from nanotok_ray.errors import SourceError
from nanotok_ray.tokenizer.evaluation.corpus import Texts
from nanotok_ray.tokenizer.evaluation.counter import TokenizerCounter
from nanotok_ray.tokenizer.evaluation.vocabulary import Vocabulary
from nanotok_ray.tokenizer.rendering import Ids

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_LABELS: Final = 1000
"""A column with more different values identifies documents rather than languages."""


@dataclass(slots=True)
class Tally:
    """Sums over a set of texts."""

    tokens: list[int]
    """Tokens of each tokenizer, in order."""
    superwords: list[int]
    """Of them, those of several words."""
    texts: int = 0
    num_bytes: int = 0
    characters: int = 0
    """Code points of the texts."""

    @classmethod
    def empty(cls, number: int) -> "Self":
        """Return the sums over no texts for a number of tokenizers."""
        return cls(tokens=[0] * number, superwords=[0] * number)

    def add(self, other: "Tally") -> None:
        """Add the sums over other texts."""
        self.texts += other.texts
        self.num_bytes += other.num_bytes
        self.characters += other.characters
        self.tokens = _added(self.tokens, other.tokens)
        self.superwords = _added(self.superwords, other.superwords)

    def bytes_per_token(self, index: int) -> float | None:
        """Return the bytes per token of a tokenizer, or None if there are no tokens."""
        return self.num_bytes / self.tokens[index] if self.tokens[index] else None

    def diff_percent(self, index: int) -> float | None:
        """Return by how many percent the first tokenizer makes fewer tokens than another one."""
        return diff_percent(self.tokens[index], self.tokens[0])

    @property
    def bytes_per_character(self) -> float | None:
        """Bytes per code point, or None if there are no characters."""
        return self.num_bytes / self.characters if self.characters else None


def _added(left: Sequence[int], right: Sequence[int]) -> list[int]:
    return [count + more for count, more in zip(left, right, strict=True)]


@dataclass(slots=True)
class Measurement:
    """Sums over the texts of one source."""

    total: Tally
    by_label: dict[str, Tally] = field(default_factory=dict)
    """Sums by label, in the order of the labels; empty without labels."""


def measure(
    counters: Sequence[TokenizerCounter],
    batches: Iterable[Texts],
    *,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Measurement:
    """Count the tokens of all texts with all counters.

    >>> from nanotok_ray.tokenizer.evaluation import TokenizerCounter
    >>> from nanotok_ray.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
    >>> texts = Texts(documents=Documents.from_strings(["aé", "b"]), labels=["fr", "en"])
    >>> measured = measure([TokenizerCounter("bytes", tokenizer)], [texts])
    >>> measured.total
    Tally(tokens=[4], superwords=[0], texts=2, num_bytes=4, characters=3)
    >>> measured.by_label["fr"].bytes_per_character
    1.5

    Args:
        counters: the tokenizers to compare.
        batches: the texts.
        on_bytes: called with the number of bytes of text counted since the last call.

    Raises:
        SourceError: There are more than `MAX_LABELS` labels.
        SplitError: The regex engine gave up on a text.
        VerificationError: A text differs from its decoded ids.
    """
    measured = Measurement(total=Tally.empty(len(counters)))
    for batch in batches:
        counts = [counter.count(batch.documents) for counter in counters]
        columns = [
            np.ones(len(batch.documents), dtype=np.int64),
            np.diff(batch.documents.offsets),
            characters_of(batch.documents),
            *(tokens for tokens, _ in counts),
            *(superwords for _, superwords in counts),
        ]
        measured.total.add(_tally([int(column.sum()) for column in columns]))
        if batch.labels is not None:
            _add_labels(measured.by_label, batch.labels, columns)
        on_bytes(batch.documents.num_bytes)
    measured.by_label = dict(sorted(measured.by_label.items()))
    return measured


def characters_of(texts: Documents) -> NDArray[np.int64]:
    """Return the number of code points of each text, which must be UTF-8.

    >>> characters_of(Documents.from_strings(["aé", "", "🙂"])).tolist()
    [2, 0, 1]
    """
    counts = np.zeros(len(texts), dtype=np.int64)
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    is_first = (texts.data[first:last] & 0xC0) != 0x80  # noqa: PLR2004 - 10xxxxxx goes on
    filled = np.flatnonzero(np.diff(texts.offsets))  # reduceat does not accept empty ranges
    if len(filled):
        starts = texts.offsets[:-1][filled] - first
        counts[filled] = np.add.reduceat(is_first, starts, dtype=np.int64)
    return counts


def _tally(sums: Sequence[int]) -> Tally:
    texts, num_bytes, characters, *counts = sums
    middle = len(counts) // 2
    return Tally(
        tokens=counts[:middle],
        superwords=counts[middle:],
        texts=texts,
        num_bytes=num_bytes,
        characters=characters,
    )


def _add_labels(
    by_label: dict[str, Tally], labels: Sequence[str], columns: Sequence[NDArray[np.int64]]
) -> None:
    names = sorted(set(labels))
    numbers = {name: number for number, name in enumerate(names)}
    indexes = np.array([numbers[label] for label in labels], dtype=np.int64)
    sums = np.zeros((len(columns), len(names)), dtype=np.int64)
    for target, column in zip(sums, columns, strict=True):
        np.add.at(target, indexes, column)
    for name, total in zip(names, sums.T.tolist(), strict=True):
        tally = _tally(total)
        by_label.setdefault(name, Tally.empty(len(tally.tokens))).add(tally)
    if len(by_label) > MAX_LABELS:
        raise SourceError(
            f"the column has more than {MAX_LABELS:,} different values, as {names[0]!r}: name one "
            "that says the language or the like"
        )


@dataclass(slots=True)
class Usage:
    """Counts of ids over some texts.

    >>> vocabulary = Vocabulary(tokens=(b"a", b"b", b"ab"), num_bytes=2)
    >>> usage = Usage(vocabulary)
    >>> usage.add(np.array([2, 2, 0], dtype=np.uint16), Documents.from_strings(["ab", "aba"]))
    >>> usage.most_used(5), usage.unused
    ([2, 0], [1])
    """

    vocabulary: Vocabulary
    counts: NDArray[np.int64] = field(init=False)
    """The count of each id of text."""
    texts: int = 0
    num_bytes: int = 0
    """Bytes of the texts."""

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.vocabulary.tokens), dtype=np.int64)

    def add(self, ids: Ids, texts: Documents) -> None:
        """Count the ids of texts; they must not contain special tokens."""
        self.counts += np.bincount(ids, minlength=len(self.counts))
        self.texts += len(texts)
        self.num_bytes += texts.num_bytes

    @property
    def total(self) -> int:
        """The number of counted ids."""
        return int(self.counts.sum())

    @property
    def superwords(self) -> int:
        """The number of counted ids of tokens of several words."""
        return int(self.counts[self.vocabulary.superwords].sum())

    @property
    def bytes_per_token(self) -> float | None:
        """Bytes per token, or None if there are no tokens."""
        return self.num_bytes / self.total if self.total else None

    def most_used(self, limit: int) -> list[int]:
        """Return the most frequent ids, of equal counts the lowest first, without unused ids."""
        order = np.argsort(-self.counts, kind="stable")[:limit]
        return [int(number) for number in order if self.counts[number]]

    @property
    def unused(self) -> list[int]:
        """The unused ids, single bytes included."""
        numbers: list[int] = np.flatnonzero(self.counts == 0).tolist()
        return [number for number in numbers if self.vocabulary.tokens[number]]

    @property
    def unused_merged(self) -> list[int]:
        """The unused ids of merged tokens."""
        return [number for number in self.unused if number >= self.vocabulary.num_bytes]

    def by_rank(self) -> NDArray[np.int64]:
        """Return the counts above 0, the highest first."""
        return -np.sort(-self.counts[self.counts > 0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """A comparison of two vocabularies without their special tokens."""

    shared: int
    """Number of byte strings that are a token of both, single bytes included."""
    only_left: int
    only_right: int
    equal_merges: int | None
    """Number of equal merges before the first difference, or before one vocabulary ends; None: a
    vocabulary has no merges.
    """
    left: bytes | None
    """The token of the first merge that differs; None: no more merges, or none at all."""
    right: bytes | None


def overlap_of(left: Vocabulary, right: Vocabulary) -> Overlap:
    """Compare two vocabularies.

    Merges are compared as pairs of byte strings if both vocabularies have pairs, otherwise as
    tokens.

    >>> first = Vocabulary(tokens=(b"a", b"b", b"ab", b"abb"), num_bytes=2)
    >>> second = Vocabulary(tokens=(b"b", b"a", b"ab", b"ba"), num_bytes=2)
    >>> overlap_of(first, second)
    Overlap(shared=3, only_left=1, only_right=1, equal_merges=1, left=b'abb', right=b'ba')
    """
    left_tokens, right_tokens = ({*filter(None, one.tokens)} for one in (left, right))
    numbers = {
        "shared": len(left_tokens & right_tokens),
        "only_left": len(left_tokens - right_tokens),
        "only_right": len(right_tokens - left_tokens),
    }
    if not (left.num_bytes and right.num_bytes):
        return Overlap(**numbers, equal_merges=None, left=None, right=None)
    mine, theirs = ([one.tokens[number] for number in one.merged] for one in (left, right))
    if left.pairs is None or right.pairs is None:
        equal = _equal_start(mine, theirs)
    else:
        equal = _equal_start([*_bytes_of_pairs(left)], [*_bytes_of_pairs(right)])
    return Overlap(
        **numbers,
        equal_merges=equal,
        left=mine[equal] if equal < len(mine) else None,
        right=theirs[equal] if equal < len(theirs) else None,
    )


def _bytes_of_pairs(vocabulary: Vocabulary) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes of both parts of each merge, since the ids of single bytes can differ."""
    for first, second in (vocabulary.pairs or {}).values():
        yield vocabulary.tokens[first], vocabulary.tokens[second]


def _equal_start(left: Sequence[object], right: Sequence[object]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (token, other) in pairs if token != other), min(len(left), len(right)))


def diff_percent(base: int, count: int) -> float | None:
    """Return by how many percent `count` is lower than `base`, as nanochat does.

    >>> diff_percent(404, 375), diff_percent(0, 0)
    (7.17..., None)
    """
    return (base - count) / base * 100 if base else None
