import pytest

from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN, resolve_pattern
from nanotok_ray.errors import PatternError


def test_the_default_is_the_pattern_of_nanochat():
    assert resolve_pattern("nanochat") == SPLIT_PATTERN
    assert r"\p{N}{1,2}|" in SPLIT_PATTERN


def test_gpt4_is_the_default_pattern_of_rustbpe():
    rustbpe = pytest.importorskip("rustbpe")
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(["a"]), 256)
    assert tokenizer.get_pattern() == PATTERNS["gpt4"]


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_patterns_of_openai_equal_those_of_tiktoken(name, monkeypatch):
    encodings = pytest.importorskip("tiktoken_ext.openai_public")
    monkeypatch.setattr(encodings, "load_tiktoken_bpe", lambda *_, **__: {})  # no download
    assert getattr(encodings, f"{name}_base")()["pat_str"] == PATTERNS[name]


def test_an_expression_is_its_own_pattern():
    assert resolve_pattern(r"\w+|\W") == r"\w+|\W"


@pytest.mark.parametrize("word", ["nanocht", "GPT4", "o200k-base", ""])
def test_an_unknown_name_is_refused_with_the_known_names(word):
    with pytest.raises(PatternError, match=r"use one of nanochat, gpt4, cl100k, r50k") as caught:
        resolve_pattern(word)
    assert repr(word) in str(caught.value)
