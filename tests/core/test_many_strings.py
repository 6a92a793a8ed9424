"""Generated strings beside tiktoken: a short run of `benchmarks/million_strings.py`."""

from pathlib import Path

import pytest

from benchmarks.million_strings import ALL_PATTERNS, MAX_CHARACTERS, differing, learned, strings

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


def test_strings_are_those_of_their_seed_and_reach_the_edges():
    texts = strings(2000, seed=7)
    assert texts == strings(2000, seed=7) != strings(2000, seed=8)
    assert {0, 1, 2, MAX_CHARACTERS} <= {len(text) for text in texts}
    assert max(map(len, texts)) == MAX_CHARACTERS
    everything = "".join(texts)
    assert all(edge in everything for edge in ("'\u017f", "\U0010ffff", "\r\n", "\u3000", " " * 59))


@pytest.mark.parametrize("name", ALL_PATTERNS)
def test_the_patterns_that_are_fuzzed_are_these(name):
    assert f'    r"{ALL_PATTERNS[name]}",\n' in FUZZED.read_text()
