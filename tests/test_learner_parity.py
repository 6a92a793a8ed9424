"""Merges of generated corpora beside rustbpe's: a short run of `benchmarks/learned_corpora.py`."""

from collections import Counter

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
from nanotok_ray import _core, reference
from nanotok_ray.patterns import split

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
def test_merges_of_generated_corpora_are_rustbpes(part):
    every = corpora(CORPORA, seed=7)
    own = [corpus for number, corpus in enumerate(every) if number % PARTS == part]
    assert list(differing(own)) == []


@given(documents, st.sampled_from(NUMS_MERGES), st.integers(1, 3))
def test_merges_of_any_corpus_are_rustbpes(texts, num_merges, threads):
    corpus = LearnedFrom(texts, num_merges, threads)
    assert learned(corpus) == rustbpes(corpus)


@given(documents)
def test_merges_are_those_of_the_plain_twin_too(texts):
    counts = Counter(span.encode() for text in texts for span in split(text))
    merges = reference.learn_merges(counts, num_merges=100)
    assert learned(LearnedFrom(texts, 100, 1))[0] == reference.spell(merges)


def test_a_corpus_with_other_merges_is_found(monkeypatch):
    learn = _core.learn

    def largest_first(*arrays, num_merges, threads):
        merges, counts, applied, reason = learn(*arrays, num_merges=num_merges, threads=threads)
        return merges[::-1], counts, applied, reason

    same = LearnedFrom(["ab"], 5, 1)
    other = LearnedFrom(["ab cd"], 2, 1)
    monkeypatch.setattr(_core, "learn", largest_first)
    assert [corpus for corpus, _, _ in differing([same, other])] == [other]


def test_corpora_are_those_of_their_seed_and_reach_the_edges():
    made = list(corpora(CORPORA, seed=7))
    assert made == list(corpora(CORPORA, seed=7)) != list(corpora(CORPORA, seed=8))
    assert made[:9] == list(corpora(9, seed=7))
    letters = {len(set("".join(corpus.documents))) for corpus in made}
    assert set(range(7)) <= letters
    longest = max(len(text) for corpus in made for text in corpus.documents)
    assert longest > 300
    assert any(letter * 300 in text for each in made for text in each.documents for letter in "a ")
    assert any("".join(corpus.documents) == "" for corpus in made)
    ended = Counter(learned(corpus)[1] for corpus in made[:200])
    assert min(ended["no pair left"], ended["vocabulary size reached"]) > 50
