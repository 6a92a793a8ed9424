"""Compares generated strings with tiktoken: a short run of `benchmarks/million_strings.py`."""

from pathlib import Path

import pytest

from benchmarks.million_strings import ALL_PATTERNS, differing, learned, strings

FUZZED = Path(__file__).parents[2] / "rust" / "fuzz" / "src" / "patterns.rs"


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_ids_of_generated_strings_equal_tiktoken(name):
    tokenizer = learned(ALL_PATTERNS[name], seed=7, count=1000)
    assert list(differing(tokenizer, strings(400, seed=7))) == []


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_the_fuzzed_patterns_are_the_supported_ones(name):
    assert f'    r"{ALL_PATTERNS[name]}",\n' in FUZZED.read_text()
