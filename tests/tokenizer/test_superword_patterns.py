"""The patterns of superwords: spans, and the ids of long texts in tiktoken and tokenizers."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS, split
from nanotok_ray.tokenizer import Tokenizer, open_tokenizer, to_huggingface_file
from nanotok_ray.tokenizer.readable import to_tiktoken_file

NAMES = ["nanochat-superwords", "gpt4-superwords"]
LONG = {
    "words": "some words of text, and more ",
    "letter": "a",
    "ideographs": "\u4e2d\u6587\u5b57",
    "signs between spaces": "! ",
    "signs between letters": "a.",
    "a run of signs": "=",
    "marks": "\u0301",
}
"""Texts without a newline are repetitions of these."""

SPACES = 500_000
"""tiktoken's regex engine gives up at a million spaces, with every named pattern."""


@cache
def learned(name):
    texts = [text * 40 for text in LONG.values()]
    return Tokenizer.train_from_iterator(texts, 340, pattern=name)


@pytest.mark.parametrize("name", NAMES)
def test_the_lexer_splits(name):
    splitter = _core.Splitter(PATTERNS[name])
    assert splitter.engine == "lexer"
    regex = _core.Splitter(f"(?:{PATTERNS[name]})")
    assert regex.engine == "regex"
    for text in (*LONG.values(), " ", "\n ", "1"):
        document = (text * 3000).encode() + b"\xff x" + text.encode()
        assert splitter.split(document) == regex.split(document)
        assert splitter.count_gaps(document) == 0


def test_a_span_is_a_run_of_words():
    text = "By the way, it's 1999 (really)... ok\n  so"
    spans = ["By the way, it's ", "199", "9", " (really", ")...", " ok", "\n", " ", " so"]
    assert split(text, pattern=PATTERNS["gpt4-superwords"]) == spans


@given(text=st.text(st.sampled_from("aB1٣½ \n\r\t\u00a0\u0301é你🙂.,-/\x00"), max_size=300))
def test_ids_equal_tiktoken(text):
    own = learned("nanochat-superwords")
    assert own.encode(text) == own.to_tiktoken().encode_ordinary(text)


def repeated(kind, num_bytes):
    return LONG[kind] * (num_bytes // len(LONG[kind].encode()))


@pytest.mark.parametrize("kind", ["words", "letter", "ideographs"])
def test_ten_megabytes_without_a_newline_in_tiktoken(kind):
    own, text = learned("nanochat-superwords"), repeated(kind, 10_000_000)
    assert own.encode(text) == own.to_tiktoken().encode_ordinary(text)


@pytest.mark.parametrize("kind", LONG)
def test_long_texts_without_a_newline_have_the_ids_of_both_libraries(kind):
    own, text = learned("nanochat-superwords"), repeated(kind, 300_000)
    peer = Peer.from_str(to_huggingface_file(own.model).decode())
    assert own.encode(text) == own.to_tiktoken().encode_ordinary(text) == peer.encode(text).ids


def test_many_spaces_in_tiktoken():
    own = learned("nanochat-superwords")
    text = " " * SPACES + "x" + " " * SPACES
    assert own.encode(text) == own.to_tiktoken().encode_ordinary(text)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_open_with_their_pattern(name, tmp_path):
    own = learned(name)
    own.save(tmp_path)
    ranks = tmp_path / "own.tiktoken"
    ranks.write_bytes(to_tiktoken_file(own.model))
    text = "some words of 12345 texts"
    for spec in (tmp_path, tmp_path / "tokenizer.json", f"{ranks}:{name}"):
        assert open_tokenizer(str(spec)).encode(text) == own.encode(text)
    assert open_tokenizer(tmp_path / "tokenizer.json").model.pattern == PATTERNS[name]
