"""Generated strings beside tiktoken: a short run of `benchmarks/million_strings.py`."""

from pathlib import Path

import pytest

from benchmarks.million_strings import ALL_PATTERNS, differing, learned, strings

FUZZED = Path(__file__).parents[2] / "rust" / "fuzz" / "src" / "patterns.rs"


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_ids_of_generated_strings_are_tiktokens(name):
    tokenizer = learned(ALL_PATTERNS[name], seed=7, count=1000)
    assert list(differing(tokenizer, strings(400, seed=7))) == []


def test_a_string_with_other_ids_is_found():
    tokenizer = learned(ALL_PATTERNS["nanochat"], seed=7, count=1000)
    other = learned(ALL_PATTERNS["gpt4"], seed=7, count=1000)
    tokenizer.to_tiktoken = other.to_tiktoken
    found = [text for text, _, _ in differing(tokenizer, ["1234", "", "a"])]
    assert "1234" in found
    assert "" not in found


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_the_patterns_that_are_fuzzed_are_these(name):
    assert f'    r"{ALL_PATTERNS[name]}",\n' in FUZZED.read_text()
