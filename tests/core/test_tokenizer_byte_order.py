"""Tokenizers whose ids 0..255 are the bytes in another order: only these ids differ."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import (
    Tokenizer,
    from_readable,
    sha256_of,
    to_huggingface_file,
    to_readable,
)
from tests.support.foreign_models import GPT2_ORDER, LEARNED, in_order, orders, texts

PLAIN = Tokenizer(LEARNED)


def renamed(ids, byte_order):
    numbers = {byte: number for number, byte in enumerate(byte_order)}
    return [numbers[each] if each < len(numbers) else each for each in ids]


@given(byte_order=orders, some=st.lists(texts, max_size=5))
def test_only_the_ids_of_bytes_differ(byte_order, some):
    own = Tokenizer(in_order(byte_order))
    for text in some:
        ids = own.encode(text)
        assert ids == renamed(PLAIN.encode(text), byte_order)
        assert own.decode(ids) == text
        assert own.decode_bytes(np.array(ids * 8, np.uint16)) == text.encode() * 8
    ids, offsets = own.encode_batch(some, num_threads=2)
    assert ids.tolist() == renamed(PLAIN.encode_batch(some)[0].tolist(), byte_order)
    assert own.decode_batch(ids, offsets).to_pylist() == some


def test_tokens_lengths_and_numbers_follow_the_byte_order():
    own = Tokenizer(in_order())
    assert [own.decode_single_token_bytes(number) for number in (0, 255)] == [b"!", b"\xad"]
    assert own.encode_special("!") == 0
    assert own.model.token(0) == b"!"
    assert own.model.ranks() == dict(zip(own.model.tokens, range(1000), strict=False))
    assert own.token_bytes().tolist() == PLAIN.token_bytes().tolist()


def test_conversations_render_with_the_byte_order():
    names = {name: 256 + len(LEARNED.merges) + n for n, name in enumerate(SPECIAL_TOKENS)}
    plain = Tokenizer(replace(LEARNED, special_tokens=names))
    own = Tokenizer(in_order(special_tokens=names))
    chat = {"messages": [{"role": "user", "content": "q!"}, {"role": "assistant", "content": "zé"}]}
    ids, mask = own.render_conversation(chat)
    expected, expected_mask = plain.render_conversation(chat)
    assert (ids, mask) == (renamed(expected, GPT2_ORDER), expected_mask)
    document = json.dumps(chat)
    [rendered, again] = [each.render_batch([document], "messages") for each in (own, plain)]
    assert rendered.ids.tolist() == ids == renamed(again.ids.tolist(), GPT2_ORDER)


@given(orders.filter(lambda order: order != bytes(range(256))))
def test_the_readable_file_stores_the_byte_order(byte_order):
    model = in_order(byte_order)
    data = to_readable(model)
    assert from_readable(data, name="f") == model
    assert data.startswith(b"nanotok-tokenizer 2\n")
    assert data.splitlines()[3] == b"bytes " + byte_order.hex().encode()


def test_the_default_byte_order_writes_the_original_file():
    model = in_order(bytes(range(256)))
    data = to_readable(model)
    assert model == LEARNED
    assert data.startswith(b"nanotok-tokenizer 1\n")
    assert sha256_of(model) == PLAIN.sha256
    line = b"bytes " + bytes(range(256)).hex().encode() + b"\nspecial"
    claimed = data.replace(b"tokenizer 1", b"tokenizer 2", 1).replace(b"special", line, 1)
    with pytest.raises(TokenizerError, match="line 1: expected 'nanotok-tokenizer 1'"):
        from_readable(claimed, name="f")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"bytes 21", b"bytes zz", "line 4: expected hexadecimal digits, found 'zz22"),
        (b"bytes 21", b"bytes ", "f: ids 0 to 255 must be each byte once: the byte order has 255"),
        (b"bytes 21", b"bytes 22", "256 bytes, 255 of them different"),
        (b"bytes 2122", b"bytes 21 22", "line 4: expected 'bytes 2122"),
    ],
)
def test_a_damaged_byte_order_is_refused(old, new, message):
    with pytest.raises(TokenizerError) as caught:
        from_readable(to_readable(in_order()).replace(old, new, 1), name="f")
    assert message in str(caught.value)


def test_smaller_larger_and_pickled_tokenizers_keep_the_byte_order():
    own = Tokenizer(in_order())
    assert own.truncated(300).model.byte_order == GPT2_ORDER
    assert own.truncated(300).decode(own.truncated(300).encode("the cat!")) == "the cat!"
    assert own.extended(["<x>"]).model.byte_order == GPT2_ORDER
    assert pickle.loads(pickle.dumps(own)) == own != PLAIN
    assert hash(own) == hash(Tokenizer(in_order()))


@given(byte_order=orders, text=texts)
def test_hugging_face_reads_the_byte_order_from_our_file(byte_order, text):
    own = Tokenizer(in_order(byte_order))
    peer = Peer.from_str(to_huggingface_file(own.model).decode())
    assert peer.encode(text).ids == own.encode(text)
