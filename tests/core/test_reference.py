"""The fast code gives what the plain twin gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer, make_model
from tests.support import reference

texts = st.text(
    st.sampled_from("aaab the''s12 \n\té你🙂.\x00") | st.characters(codec="utf-8"), max_size=30
)
corpora = st.lists(texts, max_size=5)
names = st.sampled_from(list(PATTERNS))


def splitter(name):
    return _core.Splitter(PATTERNS[name]).split


@given(corpora, texts, names, st.integers(0, 40))
def test_merges_ids_and_text_are_the_plain_twins(corpus, text, name, num_merges):
    fast = Tokenizer.train_from_iterator(corpus, 265 + num_merges, pattern=name)
    split = splitter(name)
    counts = reference.count_spans([each.encode() for each in corpus], split=split)
    merges = reference.learn_merges(counts, num_merges=num_merges)
    assert fast.merges == merges
    ids = reference.encode(text.encode(), split=split, merges=merges)
    assert fast.encode(text) == ids
    assert reference.decode(ids, merges=merges) == fast.decode_bytes(ids) == text.encode()


LEARNED = Tokenizer.train_from_iterator(
    [
        "the cat that sat there",
        "aaaa aaaaaaaaaaaaaaaa",
        "a" * 300,
        "ab" * 90,
        "你好世界你好 你好吗",
    ],
    vocab_size=320,
    special_tokens=(),
)
"""Its merges, in a tokenizer that takes a whole text as one span."""
ONE_SPAN = Tokenizer(make_model(LEARNED.merges, pattern="(?s:.+)", special_tokens=()))
UNITS = ["a", "ab", "aab", "the ", "你好", "你", "xqzj", " ", "catthat", "é🙂"]


# A heap takes over from scanning at 64 bytes; the others are lengths of words, caches and blocks.
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("near", [16, 32, 48, 64, 96, 1024])
def test_long_spans_are_the_plain_twins_at_every_length_near_a_threshold(unit, near):
    for length in range(near - 3, near + 4):
        span = (unit.encode() * near)[:length]
        expected = reference.encode(span, split=lambda span: [span], merges=LEARNED.merges)
        ids, _ = ONE_SPAN.encode_documents(Documents.from_bytes([span]))
        # A cut character ends in bytes that are spans of their own.
        valid = span.decode(errors="ignore").encode()
        if valid == span:
            assert ids.tolist() == expected
        assert ONE_SPAN.decode_bytes(ids) == span


# No learner would come to these merges: ids of any two earlier ones, same bytes under two ids.
@given(st.data(), st.text("abc", max_size=40))
def test_ids_of_any_merges_are_the_plain_twins(data, text):
    merges = []
    for number in range(data.draw(st.integers(0, 12))):
        ids = st.sampled_from([97, 98, 99, *range(256, 256 + number)])
        merges.append(data.draw(st.tuples(ids, ids).filter(lambda pair: pair not in merges)))
    fast = Tokenizer(make_model(merges, pattern="(?s:.+)", special_tokens=()))
    ids = reference.encode(text.encode(), split=lambda span: [span] if span else [], merges=merges)
    assert fast.encode(text) == ids


def test_learning_counts_overlaps_and_takes_the_smallest_of_equal_pairs():
    assert reference.learn_merges({b"aaaaa": 1}, num_merges=9) == [(97, 97), (256, 97), (256, 257)]
    assert reference.learn_merges({b"zz": 2, b"ab": 2}, num_merges=1) == [(97, 98)]
