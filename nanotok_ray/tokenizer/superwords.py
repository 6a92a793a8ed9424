"""Tokens of several words (SuperBPE): the frequent pairs.

The first stage is an ordinary tokenizer, which encodes the spans of a looser pattern. Segments of
these spans between pairs of ids that are too rare to be merged are counted, and the learner
continues the tokenizer from them. This is exact if the last merge occurs at least as often as a
frequent pair (see `count/recount.rs` of the core), which is checked; otherwise rarer pairs count as
frequent, and the segments are counted again.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import RarePairsError
from nanotok_ray.tokenizer.base import Spans, pair_keys

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
