"""The fast code returns the results of the plain implementation."""

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.tokenizer import Tokenizer
from tests.support import reference

texts = st.text(
    st.sampled_from("aaab the''s12 \n\té你🙂.\x00") | st.characters(codec="utf-8"), max_size=30
)
corpora = st.lists(texts, max_size=5)
names = st.sampled_from(list(PATTERNS))


def splitter(name):
    return _core.Splitter(PATTERNS[name]).split


@given(corpora, texts, names, st.integers(0, 40))
def test_merges_ids_and_text_equal_the_reference(corpus, text, name, num_merges):
    fast = Tokenizer.train_from_iterator(corpus, 265 + num_merges, pattern=name)
    split = splitter(name)
    counts = reference.count_spans([each.encode() for each in corpus], split=split)
    merges = reference.learn_merges(counts, num_merges=num_merges)
    assert fast.merges == merges
    ids = reference.encode(text.encode(), split=split, merges=merges)
    assert fast.encode(text) == ids
    assert reference.decode(ids, merges=merges) == fast.decode_bytes(ids) == text.encode()


def test_learning_counts_overlaps_and_breaks_ties_by_the_smallest_pair():
    assert reference.learn_merges({b"aaaaa": 1}, num_merges=9) == [(97, 97), (256, 97), (256, 257)]
    assert reference.learn_merges({b"zz": 2, b"ab": 2}, num_merges=1) == [(97, 98)]
