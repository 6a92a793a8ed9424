"""tokenizer.json and its patterns."""

import json
import unicodedata
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Peer

from nanotok_ray.counts import PATTERNS, split
from nanotok_ray.tokenizer import (
    Tokenizer,
    to_huggingface_config,
    to_huggingface_file,
    to_huggingface_split,
    with_atomic_intervals,
)
from tests.support.foreign_models import texts

CORPUS = [
    "the cat sat on the mat, the hat: 123456",
    "naïve café 你好 🙂 '\u017fs",
    "   x\n\n\t y \r\n",
]
HOSTILE = [
    *("", "\x00", " " * 5000, "\n" * 3000 + "x", "a" * 20_000, "9" * 1001),
    "\ud7ff\ue000\ufffd\uffff\U0010ffff",
    "e" + "\u0301" * 300,
    "\u202e\u200d\u2028\u2029\u0085\ufeff\u00ad\u180e\u3000",
    "👩‍👩‍👧‍👦🏳️‍🌈" * 20,
    "<|bos|><|bos|<|bos|>|> <|user_start|>",
    "ĠĊ Ġthe Ĺ",
    "\u1e9e\u017f\u212a\u0130\ufb06'\u017f '\u212a",
    "١٢٣٤ ⅷⅸ 四五 ²³¼",
    "한글 \u1112\u1161\u11ab ไทย नमस्ते",
]
"""Strings for which tokenizers are known to differ."""


@pytest.fixture(scope="module")
def tokenizers():
    own = {name: Tokenizer.train_from_iterator(CORPUS, 330, pattern=name) for name in PATTERNS}
    return {name: (each, load(each)) for name, each in own.items()}


def load(own):
    peer = Peer.from_str(to_huggingface_file(own.model).decode())
    peer.encode_special_tokens = True
    return peer


@pytest.mark.parametrize("name", PATTERNS)
@given(text=texts)
def test_ids_equal_ours(tokenizers, name, text):
    own, peer = tokenizers[name]
    assert peer.encode(text).ids == own.encode(text)


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:8]))
def test_hostile_strings_have_our_ids_and_decode_to_themselves(tokenizers, name, text):
    own, peer = tokenizers[name]
    ids = own.encode(text)
    assert peer.encode(text).ids == ids
    assert peer.decode(ids, skip_special_tokens=False) == text


def test_numbers_have_our_ids_where_digits_were_merged(tokenizers):
    corpus = ["1234567 12345678 777777 1234567"] * 3
    for name in tokenizers:
        own = Tokenizer.train_from_iterator(corpus, 290, pattern=name)
        for text in (*corpus, "7" * 50, "x12345"):
            assert load(own).encode(text).ids == own.encode(text)


@given(st.data())
def test_any_ids_decode_as_ours(tokenizers, data):
    own, peer = tokenizers["nanochat"]
    ids = data.draw(st.lists(st.integers(0, own.get_vocab_size() - 1), max_size=20))
    assert peer.decode(ids, skip_special_tokens=False) == own.decode(ids)


def test_a_special_token_in_letters_of_the_byte_alphabet_decodes_to_bytes(tokenizers):
    """A limit of tokenizers: docs/formats.md."""
    own = tokenizers["nanochat"][0].extended(["<é>", "<你>"])
    first, second = own.encode_special("<é>"), own.encode_special("<你>")
    assert load(own).decode([first], skip_special_tokens=False) == "<\ufffd>"
    assert load(own).decode([second], skip_special_tokens=False) == "<你>" == own.decode([second])


@pytest.mark.parametrize(
    ("special_tokens", "roles"),
    [
        (["<|bos|>"], ["<|bos|>", "<|bos|>", "<|bos|>"]),
        (["<|endoftext|>", "<|endofprompt|>"], ["<|endoftext|>"] * 3),
        (["<|bos|>", "<|endoftext|>"], ["<|bos|>", "<|endoftext|>", "<|bos|>"]),
        (["<image>"], [None] * 3),
        ([], [None] * 3),
    ],
)
def test_other_tokenizers_have_the_possible_roles_and_no_template(special_tokens, roles):
    own = Tokenizer.train_from_iterator(["hello hello"], 290, special_tokens=special_tokens)
    found = json.loads(to_huggingface_config(own.model))
    assert [found.get(role) for role in ("bos_token", "eos_token", "pad_token")] == roles
    assert "chat_template" not in found
    assert {*roles, *found["additional_special_tokens"]} - {None} == {*special_tokens}


def test_added_tokens_equal_those_of_tokenizer_json(tmp_path):
    own = Tokenizer.train_from_iterator(["hello hello"], 290).extended(["<image>", "<é>"])
    own.save(tmp_path)
    found = json.loads((tmp_path / "tokenizer_config.json").read_text())
    tokens = json.loads((tmp_path / "tokenizer.json").read_text())["added_tokens"]
    listed = [{"id": int(number), **each} for number, each in found["added_tokens_decoder"].items()]
    assert listed == tokens
    peer = Peer.from_file(str(tmp_path / "tokenizer.json"))
    known = peer.get_added_tokens_decoder()
    assert {number: each.content for number, each in known.items()} == {
        number: name for name, number in own.special_tokens.items()
    }


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
