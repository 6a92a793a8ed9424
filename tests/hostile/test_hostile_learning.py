"""Corpora for which learners have overflowed, been very slow or returned wrong merges.

Merges are compared with rustbpe's, or with known results.
"""

import random
import string

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.counts import split
from nanotok_ray.job import use_executor
from nanotok_ray.tokenizer import NO_PAIR_LEFT
from tests.support.executors import Twice
from tests.support.learned import check, learn, learn_all
from tests.support.small_corpus import contents, recipe, write_corpus


def words(alphabet, number, lengths, *, seed):
    rng = random.Random(seed)
    found = {}
    while len(found) < number:
        found["".join(rng.choices(alphabet, k=rng.choice(lengths)))] = None
    return list(found)


def test_ties_are_merged_in_the_order_of_rustbpe():
    spans = words(string.ascii_letters, 20_000, range(3, 9), seed=16)
    assert 12_000 < len(check(["\n".join(spans)], 100_000).merges) < 100_000


@pytest.mark.parametrize(
    "documents", [[], [""], ["", ""], ["a"], ["a", "1", "\n"], ["a\nb\n1"]], ids=repr
)
def test_a_corpus_without_pairs_has_no_merges(documents):
    own = check(documents, 100)
    assert own.merges == []
    assert own.get_vocab_size() == 256
    assert own.encode("the é") == [*"the é".encode()]


def test_spans_of_at_most_one_byte_and_of_count_zero_have_no_pairs():
    assert learn({}, 9) == ([], [])
    assert learn({bytes([byte]): 2**60 for byte in range(256)} | {b"": 9}, 9) == ([], [])
    assert learn({b"ab": 0, b"c": 5}, 9) == ([], [])
    assert learn({b"ab": 0, b"cd": 1}, 9) == ([(99, 100)], [1])


LONG = {
    "one letter": (b"a" * 10**6, 25),
    "two letters in turn": (b"ab" * 500_000, 25),
    "a run, then another": (b"a" * 500_000 + b"b" * 500_000, None),
    "random letters": (bytes(random.Random(17).choices(b"abcdefgh", k=10**6)), None),
    "random bytes": (random.Random(17).randbytes(2**18), None),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_span_is_merged_into_one_token(name):
    """Up to 300,000 merges; scanning the text for each would take hours for a megabyte."""
    span, number = LONG[name]
    merges, counts, applied, reason = learn_all({span: 1}, 2**31)
    assert reason == NO_PAIR_LEFT
    assert len(merges) == (number or len(merges))
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    assert int(applied.sum()) == len(span) - 1
    lengths = [1] * 256
    for left, right in merges.tolist():
        lengths.append(lengths[left] + lengths[right])
    assert lengths[-1] == len(span)


@pytest.mark.parametrize("alphabet", ["ab", string.ascii_lowercase, "数据中文字"])
def test_one_span_of_a_megabyte_has_the_merges_of_rustbpe(alphabet):
    text = "".join(random.Random(17).choices(alphabet, k=1_000_000 // len(alphabet[0].encode())))
    assert split(text) == [text]
    assert len(check([text], 60).merges) == 60


def test_spans_of_many_characters_have_the_merges_of_rustbpe():
    alphabet = [chr(code) for code in range(0x4E00, 0x9FA6)]
    spans = words(alphabet, 20_000, range(1, 7), seed=18)
    own = check(["\n".join(spans)], 8_000)
    assert len(own.merges) == 8_000
    ids, _ = own.encode_batch(spans)
    assert own.decode(ids) == "".join(spans)


def test_repeated_tasks_count_nothing_twice(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "once"))
    with use_executor(Twice(ends=2)):
        prepare(recipe(tmp_path / "in", tmp_path / "twice"))
    assert contents(tmp_path / "twice") == contents(tmp_path / "once")
    assert contents(tmp_path / "twice-work") == contents(tmp_path / "once-work")
