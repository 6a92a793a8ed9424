"""Counts past 2^31, 2^32 and 2^63, where other learners wrap or stop: the same merges, or an error.

Given as counts, since no text here is as long. The other kinds of input on which learners fail are
in `test_hostile_learning.py`, which numbers them.
"""

import re
from collections import Counter

import pytest

from nanotok_ray.counts import split
from nanotok_ray.errors import CountOverflowError
from tests.support import reference
from tests.support.learned import learn
from tests.support.small_corpus import texts

EIGHTY = [(32, 32), (256, 256), (257, 257), (258, 258), (259, 259), (260, 259), (260, 261)]


@pytest.mark.parametrize("times", [1, 30_000_000, 60_000_000, 2**40, 2**57])
def test_lines_of_80_spaces_have_the_same_merges_however_many_there_are(times):
    merges, counts = learn({b" " * 80: times}, 100)
    assert merges == EIGHTY
    assert counts == [times * each for each in (79, 39, 19, 9, 4, 1, 1)]


@pytest.mark.parametrize("times", [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**45])
def test_merges_do_not_depend_on_a_factor_of_all_counts(times):
    small = Counter(span.encode() for text in texts(60, seed=14) for span in split(text))
    merges, counts = learn(small, 400)
    assert merges == reference.learn_merges(small, num_merges=400)
    large = {span: count * times for span, count in small.items()}
    assert learn(large, 400) == (merges, [count * times for count in counts])


def test_counts_that_differ_by_one_beyond_32_bits_are_told_apart():
    for more in (2**31, 2**32, 2**53, 2**62, 2**63):
        assert learn({b"ab": more, b"cd": more + 1, b"ef": more - 1}, 9) == (
            [(99, 100), (97, 98), (101, 102)],
            [more + 1, more, more - 1],
        )
        spread = {b"zz": more, b"xab": more // 2, b"yab": more // 2, b"ab": 1}
        assert learn(spread, 1) == ([(97, 98)], [more + 1])


def test_a_pair_counts_up_to_64_bits_over_many_spans_and_its_overlaps():
    many = {b"ab" + bytes([byte]): 2**56 for byte in range(255)}
    merges, counts = learn(many, 1)
    assert (merges, counts) == ([(97, 98)], [2**64 - 2**56])
    assert learn({b"aaa": 2**63 - 1}, 9) == ([(97, 97), (256, 97)], [2**64 - 2, 2**63 - 1])
    assert learn({b"ab": 2**64 - 2, b"zab": 1}, 1) == ([(97, 98)], [2**64 - 1])


@pytest.mark.parametrize(
    ("counts", "pair"),
    [
        ({b"ab": 2**64 - 1, b"zab": 1}, (97, 98)),
        ({b"zy": 2**64 - 1, b"aaa": 2**63}, (97, 97)),
        ({b"xy": 5} | {b"ab" + bytes([byte]): 2**56 for byte in range(256)}, (97, 98)),
        ({b"\xff\xfe" * 2**20: 2**44}, (255, 254)),
    ],
    ids=["two spans", "overlaps", "many spans", "a long span"],
)
def test_a_pair_that_would_pass_64_bits_is_named(counts, pair):
    with pytest.raises(CountOverflowError, match=re.escape(f"pair {pair} would pass 2**64 - 1")):
        learn(counts, 9)
