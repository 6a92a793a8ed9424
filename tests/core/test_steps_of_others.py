"""Sequences of splits, compared with the pre-tokenizers of tokenizers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Digits, Sequence, Split

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import PatternError, SplitError

DEEPSEEK = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGITS = r"[\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}]"
USED = [
    DIGITS,
    r"\p{N}{1,3}",
    r"\p{N}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    DEEPSEEK,
    GPT2,
    PATTERNS["cl100k"],
    PATTERNS["o200k"],
    "a+",
    " ",
    "-",
    r"\s+(?!\S)|\s+",
    r"(?<=a)b|\s",
    r"\p{L}(?=\p{N})",
]
BEHAVIORS = ["isolated", "contiguous", "merged_with_previous", "merged_with_next"]

steps = st.lists(
    st.tuples(st.sampled_from(USED), st.sampled_from(BEHAVIORS), st.booleans())
    | st.tuples(st.sampled_from(USED), st.just("isolated"), st.just(False)),
    min_size=1,
    max_size=4,
)
texts = st.text(
    st.sampled_from("abAB  \n\r\t-.!'s12\u00bd\u00e9\u0301\u3000\u4e2d\u56fd\u3042\U0001f600")
    | st.characters(exclude_categories=["Cs"]),
    max_size=60,
)


def theirs(steps):
    return Sequence([Split(Regex(pattern), *rest) for pattern, *rest in steps])


def pieces(splitter, text):
    return [piece.decode() for piece in splitter.split(text.encode())]


@given(steps, st.lists(texts, max_size=6))
def test_pieces_equal_those_of_tokenizers(steps, texts):
    splitter, sequence = _core.Splitter(steps), theirs(steps)
    assert splitter.pattern == steps
    for text in texts:
        assert pieces(splitter, text) == [piece for piece, _ in sequence.pre_tokenize_str(text)]
        raw = text.encode()
        bounds = splitter.boundaries(np.frombuffer(raw, np.uint8), 0, len(raw)).tolist()
        assert [raw[start:end].decode() for start, end in pairwise(bounds)] == pieces(
            splitter, text
        )


@pytest.mark.parametrize("individual", [True, False])
def test_digits_equal_those_of_tokenizers(individual):
    """For every character; `Digits` has the tables of Unicode 17."""
    behavior = "isolated" if individual else "contiguous"
    splitter = _core.Splitter([(DIGITS, behavior, False)])
    everything = "".join(f"a{chr(at)}1" for at in range(0x110000) if not 0xD800 <= at < 0xE000)
    expected = Digits(individual_digits=individual).pre_tokenize_str(everything)
    assert pieces(splitter, everything) == [piece for piece, _ in expected]


def test_a_single_plain_step_is_its_pattern():
    splitter = _core.Splitter([(PATTERNS["cl100k"], "isolated", False)])
    assert splitter.pattern == [(PATTERNS["cl100k"], "isolated", False)]
    assert splitter.split(b"it's 1234") == _core.Splitter(PATTERNS["cl100k"]).split(b"it's 1234")
    encoder = _core.Encoder([("b", "isolated", False)], np.empty((0, 2), np.uint32), gaps="error")
    with pytest.raises(SplitError, match="document 0 cannot be split at byte 1"):
        encoder.encode(b"ba")


def test_every_piece_of_steps_is_a_span():
    steps = [("b", "isolated", False), ("c", "merged_with_next", False)]
    splitter = _core.Splitter(steps)
    assert splitter.split(b"abca\xffcb") == [b"a", b"b", b"ca", b"\xff", b"c", b"b"]
    assert splitter.count_gaps(b"abca\xffcb") == 0
    merges = np.array([(97, 98), (99, 97)], np.uint32)
    encoder = _core.Encoder(steps, merges, gaps="error")
    assert encoder.encode(b"abca\xffcb").tolist() == [97, 98, 257, 255, 99, 98]


WRONG = {
    "there are 0 steps: it must be 1 to 16": [],
    "there are 17 steps: it must be 1 to 16": [("a", "isolated", True)] * 17,
    '"removed" is none of isolated, contiguous, merged_with_previous, merged_with_next': [
        ("a", "removed", False)
    ],
    "Parsing error": [("a", "isolated", False), ("(", "isolated", False)],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_steps_are_refused_by_name(message):
    with pytest.raises(PatternError, match=f"^cannot compile the split pattern: {message}"):
        _core.Splitter(WRONG[message])
