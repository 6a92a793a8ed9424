import pytest
import rustbpe
import tiktoken_ext.openai_public as encodings

from nanotok_ray.counts import PATTERNS, resolve_pattern
from nanotok_ray.errors import PatternError


def test_gpt4_is_the_default_pattern_of_rustbpe():
    tokenizer = rustbpe.Tokenizer()
    tokenizer.train_from_iterator(iter(["a"]), 256)
    assert tokenizer.get_pattern() == PATTERNS["gpt4"]


@pytest.mark.parametrize("name", ["r50k", "cl100k", "o200k"])
def test_patterns_of_openai_equal_those_of_tiktoken(name, monkeypatch):
    monkeypatch.setattr(encodings, "load_tiktoken_bpe", lambda *_, **__: {})  # no download
    assert getattr(encodings, f"{name}_base")()["pat_str"] == PATTERNS[name]


@pytest.mark.parametrize("word", ["nanocht", "GPT4", "o200k-base", ""])
def test_an_unknown_name_is_refused_with_the_known_names(word):
    with pytest.raises(PatternError, match=r"use one of nanochat, gpt4, cl100k, r50k") as caught:
        resolve_pattern(word)
    assert repr(word) in str(caught.value)
