"""Tokens of several words (SuperBPE): the frequent pairs, and learning in one process.

The first stage is an ordinary tokenizer, which encodes the spans of a looser pattern. Segments of
these spans between pairs of ids that are too rare to be merged are counted, and the learner
continues the tokenizer from them. This is exact if the last merge occurs at least as often as a
frequent pair (see `count/recount.rs` of the core), which is checked; otherwise rarer pairs count as
frequent, and the segments are counted again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN, SpanCounts
from nanotok_ray.documents import batches_of
from nanotok_ray.errors import RarePairsError
from nanotok_ray.formats import Counted
from nanotok_ray.tokenizer.base import Batch, Spans, pair_keys, span_encoder
from nanotok_ray.tokenizer.train import (
    LearnedTokenizer,
    SuperwordRules,
    TrainSettings,
    learn_counts,
    train_tokenizer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS_PER_MERGE: Final = 3
"""The number of frequent pairs at first, by the number of merges that are to be learned."""
MORE_PAIRS: Final = 8
"""The factor of the number of frequent pairs if the last merge is too rare."""

_T = TypeVar("_T")


def with_frequent_pairs(
    pairs: Spans, num_merges: int, learn: Callable[[int, NDArray[np.uint64]], _T]
) -> _T:
    """Return the result of `learn`, which is called until its last merge is frequent enough.

    Args:
        pairs: the counts of all pairs of adjacent ids.
        num_merges: the number of merges that are to be learned.
        learn: called with the count from which on a pair is frequent, and the sorted keys of the
            frequent pairs; it raises `RarePairsError` if a merge is rarer than that.
    """
    number = PAIRS_PER_MERGE * max(1, num_merges)
    while True:
        least, keys = frequent_pairs(pairs, number)
        try:
            return learn(least, keys)
        except RarePairsError:
            number *= MORE_PAIRS


def frequent_pairs(pairs: Spans, number: int) -> tuple[int, NDArray[np.uint64]]:
    """Return the lowest count of the `number` most frequent pairs, and all pairs with this count.

    If there are fewer pairs, they are all frequent and the count is 1. The pairs are sorted.
    """
    counts = np.concatenate([np.zeros(0, dtype=np.uint64), *(batch[2] for batch in pairs)])
    least = 1
    if len(counts) > number:
        least = max(1, int(np.partition(counts, len(counts) - number)[len(counts) - number]))
    keys = [pair_keys(data)[numbers >= least] for data, _, numbers in pairs]
    return least, np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *keys]))


def learn_superwords(
    texts: "Sequence[str]",
    vocab_size: int,
    *,
    from_size: int,
    pattern: str,
    max_words: int = 4,
    forbidden: str = ": ",
    first_pattern: str = SPLIT_PATTERN,
    special_tokens: "Sequence[str]" = (),
    num_threads: int = 1,
) -> LearnedTokenizer:
    """Learn both stages from texts in memory, as a job does.

    The arguments are those of the recipe; patterns are regular expressions.

    >>> from nanotok_ray.counts import PATTERNS
    >>> texts = ["in the end of the day, and of the night"] * 5
    >>> learned = learn_superwords(texts, 275, from_size=266, pattern=PATTERNS["gpt4-superwords"])
    >>> [token for token in learned.tokenizer.model.tokens if b" " in token[1:]]
    [b'nd of', b'nd of the', b', a', b' the e']
    """
    counts = SpanCounts(first_pattern, num_threads=num_threads)
    counts.update(texts)
    size = from_size - len(special_tokens)
    words = TrainSettings(vocab_size=size, pattern=first_pattern, special_tokens=())
    first = learn_counts(counts, words, threads=num_threads)
    base = span_encoder(first.tokenizer)

    def counted(frequent: "NDArray[np.uint64] | None") -> list[Batch]:
        counter = _core.SpanCounts(pattern, base=base, frequent=frequent)
        for batch in batches_of(texts):
            counter.update(batch.data, batch.offsets, threads=num_threads)
        _, data, offsets, numbers = counter.sorted_run(threads=num_threads)
        return [(data, offsets, numbers)]

    def learn(least: int, frequent: NDArray[np.uint64]) -> LearnedTokenizer:
        rules = SuperwordRules(
            first=first,
            pattern=pattern,
            max_words=max_words,
            forbidden=forbidden.encode(),
            min_merge_count=least,
        )
        settings = TrainSettings(
            vocab_size=vocab_size, special_tokens=special_tokens, superwords=rules
        )
        segments = counted(frequent)
        distinct = len(segments[0][2])
        return train_tokenizer(segments, settings, _of_segments(distinct), threads=num_threads)

    return with_frequent_pairs(counted(None), vocab_size - from_size, learn)


def _of_segments(distinct: int) -> Counted:
    return Counted(
        documents=None,
        texts=None,
        text_bytes=None,
        spans=0,
        distinct_spans=distinct,
        span_bytes=0,
        gaps=None,
    )
