"""Learning equals rustbpe, the reference and the example; the order of bytes changes only ids."""

import doctest
import json
import pickle
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from benchmarks.learned_corpora import (
    NUMS_MERGES,
    LearnedFrom,
    corpora,
    differing,
    learned,
    rustbpes,
)
from examples import bpe_from_scratch
from examples.bpe_from_scratch import BasicTokenizer, RegexTokenizer, first_seen, train
from nanotok_ray import Tokenizer, _core
from nanotok_ray.counts import PATTERNS, split
from nanotok_ray.documents import Documents
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import (
    BELOW_MIN_PAIR_COUNT,
    NO_PAIR_LEFT,
    REACHED,
    to_huggingface_file,
)
from tests.support import reference
from tests.support.foreign_models import GPT2_ORDER, LEARNED, in_order, orders, texts

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


def splitter(name):
    return _core.Splitter(PATTERNS[name]).split


@given(st.lists(texts, max_size=5), texts, st.sampled_from(list(PATTERNS)), st.integers(0, 40))
def test_merges_ids_and_text_equal_the_reference(corpus, text, name, num_merges):
    fast = Tokenizer.train_from_iterator(corpus, 265 + num_merges, pattern=name)
    split = splitter(name)
    counts = reference.count_spans([each.encode() for each in corpus], split=split)
    merges = reference.learn_merges(counts, num_merges=num_merges)
    assert fast.merges == merges
    ids = reference.encode(text.encode(), split=split, merges=merges)
    assert fast.encode(text) == ids
    assert reference.decode(ids, merges=merges) == fast.decode_bytes(ids) == text.encode()


PAGE = Path(bpe_from_scratch.__file__)
FIRST_SEEN = json.loads((PAGE.parents[1] / "tests/vectors/first_seen.json").read_text())
MAX_TEXTS = 40

letters = st.sampled_from("aabbcAéß中𝄞😀 \n\t12'!\u0301\u3000")
words = st.sampled_from(["the", " the", "it's", "WE'LL", "  ", " that", "2026", "\r\n", "naïve"])
page_texts = st.lists(letters | words, max_size=60).map("".join)


@pytest.mark.parametrize("case", FIRST_SEEN, ids=["hello", "everyone", "write"])
def test_ties_broken_by_first_occurrence_match_the_recorded_answers(case):
    size = case["vocab_size"] - 256
    merges = train(BasicTokenizer.split(case["text"]), size, first_seen)
    assert merges == [tuple(pair) for pair in case["merges"]]
    assert BasicTokenizer(merges).encode(case["text"]) == case["ids"]
    assert train(BasicTokenizer.split(case["text"]), size) != merges


@given(st.lists(page_texts, min_size=1, max_size=4), st.integers(0, MAX_TEXTS), page_texts)
def test_the_example_has_the_spans_merges_and_ids_of_the_core(documents, num_merges, unseen):
    spans = [span for text in documents for span in RegexTokenizer.split(text)]
    plain = RegexTokenizer(train(spans, num_merges))
    core = Tokenizer.train_from_iterator(
        documents, 256 + num_merges, special_tokens=(), num_threads=1
    )
    assert list(plain.new_ids) == core.merges
    for text in (*documents, unseen):
        assert plain.encode(text) == core.encode(text)
        assert plain.decode(plain.encode(text)) == text
        assert RegexTokenizer.split(text) == [span.encode() for span in split(text)]


def run(*arguments):
    command = [sys.executable, str(PAGE), *arguments]
    return subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout


def test_the_example_runs_as_a_program(tmp_path):
    reported = run("low lower lowest", "--vocab-size", "259").splitlines()
    assert reported == [
        "256 b'lo' = 108 + 111",
        "257 b'low' = 256 + 119",
        "258 b' low' = 32 + 257",
        "16 characters, 16 bytes, 8 tokens: [257, 258, 101, 114, 258, 101, 115, 116]",
        "decoded again it is the same",
    ]
    (tmp_path / "a.txt").write_text("hello everyone")
    path = str(tmp_path / "a.txt")
    reported = run("--file", path, "--basic", "--first-seen", "--vocab-size", "266")
    assert "265 b'hello every' = 264 + 121\n" in reported
    assert "4 tokens: [265, 111, 110, 101]\n" in reported


def test_the_example_is_short_imports_nothing_of_the_project_and_its_doctests_pass():
    lines = PAGE.read_text().splitlines()
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    assert len(lines) <= 150
    assert not any("nanotok" in line for line in imports)
    doctests = doctest.testmod(bpe_from_scratch)
    assert (doctests.failed, doctests.attempted > 3) == (0, True)


PLAIN = Tokenizer(LEARNED)


def renamed(ids, byte_order):
    numbers = {byte: number for number, byte in enumerate(byte_order)}
    return [numbers[each] if each < len(numbers) else each for each in ids]


@given(byte_order=orders, some=st.lists(texts, max_size=5))
def test_only_the_ids_of_bytes_differ(byte_order, some):
    own = Tokenizer(in_order(byte_order))
    for text in some:
        ids = own.encode(text)
        assert ids == renamed(PLAIN.encode(text), byte_order)
        assert own.decode(ids) == text
        assert own.decode_bytes(np.array(ids * 8, np.uint16)) == text.encode() * 8
    ids, offsets = own.encode_batch(some, num_threads=2)
    assert ids.tolist() == renamed(PLAIN.encode_batch(some)[0].tolist(), byte_order)
    assert own.decode_batch(ids, offsets).to_pylist() == some


def test_tokens_lengths_and_numbers_follow_the_byte_order():
    own = Tokenizer(in_order())
    assert [own.decode_single_token_bytes(number) for number in (0, 255)] == [b"!", b"\xad"]
    assert own.encode_special("!") == 0
    assert own.model.token(0) == b"!"
    assert own.model.ranks() == dict(zip(own.model.tokens, range(1000), strict=False))
    assert own.token_bytes().tolist() == PLAIN.token_bytes().tolist()


def test_conversations_render_with_the_byte_order():
    names = {name: 256 + len(LEARNED.merges) + n for n, name in enumerate(SPECIAL_TOKENS)}
    plain = Tokenizer(replace(LEARNED, special_tokens=names))
    own = Tokenizer(in_order(special_tokens=names))
    chat = {"messages": [{"role": "user", "content": "q!"}, {"role": "assistant", "content": "zé"}]}
    ids, mask = own.render_conversation(chat)
    expected, expected_mask = plain.render_conversation(chat)
    assert (ids, mask) == (renamed(expected, GPT2_ORDER), expected_mask)
    document = json.dumps(chat)
    [rendered, again] = [each.render_batch([document], "messages") for each in (own, plain)]
    assert rendered.ids.tolist() == ids == renamed(again.ids.tolist(), GPT2_ORDER)


def test_smaller_larger_and_pickled_tokenizers_keep_the_byte_order():
    own = Tokenizer(in_order())
    assert own.truncated(300).model.byte_order == GPT2_ORDER
    assert own.truncated(300).decode(own.truncated(300).encode("the cat!")) == "the cat!"
    assert own.extended(["<x>"]).model.byte_order == GPT2_ORDER
    assert pickle.loads(pickle.dumps(own)) == own != PLAIN
    assert hash(own) == hash(Tokenizer(in_order()))


@given(byte_order=orders, text=texts)
def test_hugging_face_reads_the_byte_order_from_our_file(byte_order, text):
    own = Tokenizer(in_order(byte_order))
    peer = Peer.from_str(to_huggingface_file(own.model).decode())
    assert peer.encode(text).ids == own.encode(text)
