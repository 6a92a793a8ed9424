"""tokenizer.json and tokenizer_config.json, read by Hugging Face's `tokenizers`."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from nanotok_ray.counts import PATTERNS
from nanotok_ray.tokenizer import (
    Tokenizer,
    to_huggingface_config,
    to_huggingface_file,
)

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

texts = st.text(
    st.sampled_from("aab the''s1234 \n\r\t\u00a0é\u0301你🙂.,-\x00") | st.characters(codec="utf-8")
)


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
