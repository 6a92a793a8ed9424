"""Splits of `tokenizers` compared with ours, by pattern and by code point."""

import unicodedata
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from nanotok_ray.counts import PATTERNS, split
from nanotok_ray.tokenizer import to_huggingface_split, with_atomic_intervals


def regex_of(pattern):
    """Return the regular expression of a pattern in tokenizer.json."""
    return to_huggingface_split(pattern)["pattern"]["Regex"]


def peer_split(text, pattern):
    peer = pre_tokenizers.Split(Regex(pattern), "isolated")
    return [span for span, _ in peer.pre_tokenize_str(text)]


@cache
def telling_points():
    """Code points at which Unicode's category changes, and every 64th: new blocks have more."""
    points = [each for each in range(0x110000) if not 0xD800 <= each < 0xE000]
    kinds = [unicodedata.category(chr(each)) for each in points]
    return [
        chr(points[at])
        for at in range(len(points))
        if at % 64 == 0 or len(set(kinds[at - 1 : at + 2])) > 1
    ]


@pytest.mark.parametrize("name", PATTERNS)
def test_no_code_point_is_split_differently(name):
    points, pattern = telling_points(), PATTERNS[name]
    assert len(points) > 20_000
    for start in range(0, len(points), 256):
        some = points[start : start + 256]
        text = "\nx\n".join(f"a{each}A12{each}3 {each}'{each} {each}" for each in some)
        assert peer_split(text, regex_of(pattern)) == split(text, pattern=pattern)


@pytest.mark.parametrize("name", PATTERNS)
@given(text=st.text(st.sampled_from("aAbsS'\u017f1٣ \n\r\t\u00a0\u0301é你🙂.,-/\x00")))
def test_spans_equal_ours(name, text):
    pattern = PATTERNS[name]
    assert peer_split(text, regex_of(pattern)) == split(text, pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "rewritten"),
    [
        (r"\p{N}{1,3}+", r"(?>\p{N}{1,3})"),
        (r"\p{N}{1,3}", r"\p{N}{1,3}"),
        (r"\p{N}++|a?+|b*+", r"\p{N}++|a?+|b*+"),
        (r"x(?:ab|c){2}+y", r"x(?>(?:ab|c){2})y"),
        (r"[a-c]{2,}+", r"(?>[a-c]{2,})"),
        (r"[]a]{2}+|[^]a{1}+]{2}+", r"(?>[]a]{2})|(?>[^]a{1}+]{2})"),
        (r"[a[bc]]{2}+", r"(?>[a[bc]]{2})"),
        (r"\{1}+", r"\{1}+"),
        (r"((a{1,2}+)b){3}+", r"(?>(((?>a{1,2}))b){3})"),
        (r"a)b{2}+", r"a)(?>b{2})"),
        (r"\x41{2}+\x{42}{2}+", r"(?>\x41{2})(?>\x{42}{2})"),
        ("", ""),
    ],
)
def test_only_possessive_intervals_are_rewritten(pattern, rewritten):
    assert with_atomic_intervals(pattern) == rewritten


LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UNCHANGED = {name: PATTERNS[name] for name in ("o200k", "nanochat")}
PUBLISHED = {"gpt4": LLAMA_3, "r50k": GPT_2} | UNCHANGED
"""Spellings for which tokenizers 1.0.0rc3 has an equivalent splitter, and nanochat's: it accepts
Llama 3's pattern with two digits, but splits after three.
"""


@pytest.mark.parametrize("name", PUBLISHED)
def test_named_patterns_are_spelled_as_in_published_tokenizers(name):
    assert regex_of(PATTERNS[name]) == PUBLISHED[name]
