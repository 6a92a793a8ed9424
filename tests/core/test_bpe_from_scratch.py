"""The tutorial in plain Python: recorded answers, and comparison with the core and rustbpe."""

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import bpe_from_scratch
from examples.bpe_from_scratch import BasicTokenizer, RegexTokenizer, first_seen, train
from nanotok_ray import Tokenizer
from nanotok_ray.counts import split as core_split

PAGE = Path(bpe_from_scratch.__file__)
FIRST_SEEN = json.loads((PAGE.parents[1] / "tests/vectors/first_seen.json").read_text())
MOST = 40

letters = st.sampled_from("aabbcAéß中𝄞😀 \n\t12'!\u0301\u3000")
words = st.sampled_from(["the", " the", "it's", "WE'LL", "  ", " that", "2026", "\r\n", "naïve"])
texts = st.lists(letters | words, max_size=60).map("".join)


@pytest.mark.parametrize("case", FIRST_SEEN, ids=["hello", "everyone", "write"])
def test_ties_broken_by_first_occurrence_match_the_recorded_answers(case):
    size = case["vocab_size"] - 256
    merges = train(BasicTokenizer.split(case["text"]), size, first_seen)
    assert merges == [tuple(pair) for pair in case["merges"]]
    assert BasicTokenizer(merges).encode(case["text"]) == case["ids"]
    assert train(BasicTokenizer.split(case["text"]), size) != merges


@given(texts)
def test_the_example_splits_texts_as_the_core_does(text):
    assert RegexTokenizer.split(text) == [span.encode() for span in core_split(text)]


@given(st.lists(texts, min_size=1, max_size=4), st.integers(0, MOST), texts)
def test_the_example_has_the_merges_and_ids_of_the_core(documents, num_merges, unseen):
    spans = [span for text in documents for span in RegexTokenizer.split(text)]
    plain = RegexTokenizer(train(spans, num_merges))
    core = Tokenizer.train_from_iterator(
        documents, 256 + num_merges, special_tokens=(), num_threads=1
    )
    assert list(plain.new_ids) == core.merges
    for text in (*documents, unseen):
        assert plain.encode(text) == core.encode(text)
        assert plain.decode(plain.encode(text)) == text


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
