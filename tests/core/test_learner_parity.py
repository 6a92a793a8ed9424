"""Compares merges of generated corpora with rustbpe's, and with limits with a plain learner's.

The seeded corpora are a short run of `benchmarks/learned_corpora.py`.
"""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.learned_corpora import (
    NUMS_MERGES,
    LearnedFrom,
    corpora,
    differing,
    learned,
    rustbpes,
)
from nanotok_ray import _core
from nanotok_ray.counts import split
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import BELOW_MIN_PAIR_COUNT, NO_PAIR_LEFT, REACHED
from tests.support import reference

PARTS = 4
CORPORA = 500

alphabets = st.lists(st.sampled_from("abAéß中𝄞😀 \n\t1'!\u0301\u3000"), min_size=1, max_size=6)
runs = st.integers(1, 6).flatmap(lambda most: st.integers(1, most) | st.integers(1, 300))
documents = alphabets.flatmap(
    lambda letters: st.lists(
        st.lists(st.tuples(st.sampled_from(letters), runs), max_size=10).map(
            lambda drawn: "".join(letter * times for letter, times in drawn)
        ),
        max_size=8,
    )
)


@pytest.mark.parametrize("part", range(PARTS))
def test_merges_of_generated_corpora_equal_rustbpe(part):
    every = corpora(CORPORA, seed=7)
    own = [corpus for number, corpus in enumerate(every) if number % PARTS == part]
    assert list(differing(own)) == []


@given(documents, st.sampled_from(NUMS_MERGES), st.integers(1, 3))
def test_merges_of_any_corpus_equal_rustbpe(texts, num_merges, threads):
    corpus = LearnedFrom(texts, num_merges, threads)
    assert learned(corpus) == rustbpes(corpus)


limits = {"min_pair_count": st.integers(0, 5), "max_token_bytes": st.integers(0, 9) | st.none()}


def limited(counts, *, num_merges, min_pair_count, max_token_bytes):
    """The rule in plain Python: merges and the reason of the end; recounts for each merge."""
    words = [(list(span), count) for span, count in counts.items()]
    most = float("inf") if max_token_bytes is None else max_token_bytes
    lengths, merges = [1] * 256, []
    while len(merges) < num_merges:
        pairs = Counter()
        for ids, count in words:
            for left, right in pairwise(ids):
                pairs[left, right] += count * (lengths[left] + lengths[right] <= most)
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] == 0:
            return merges, NO_PAIR_LEFT
        if pairs[best] < min_pair_count:
            return merges, BELOW_MIN_PAIR_COUNT
        words = [(reference.merge(ids, best, len(lengths)), count) for ids, count in words]
        merges.append(list(best))
        lengths.append(lengths[best[0]] + lengths[best[1]])
    return merges, REACHED


@given(documents, st.sampled_from(NUMS_MERGES[:-1]), st.fixed_dictionaries(limits))
def test_limits_exclude_rare_pairs_and_long_tokens(texts, num_merges, limit):
    counts = Counter(span.encode() for text in texts for span in split(text))
    spans = Documents.from_bytes(list(counts))
    numbers = np.array(list(counts.values()), np.uint64)
    merges, found, _, reason = _core.learn(
        [(spans.data, spans.offsets, numbers)], num_merges=num_merges, **limit
    )
    assert (merges.tolist(), reason) == limited(counts, num_merges=num_merges, **limit)
    assert all(count >= limit["min_pair_count"] for count in found.tolist())
