"""Compares the chat template, rendered like transformers does, with `render_conversation`."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from nanotok_ray.tokenizer import CHAT_TEMPLATE, Tokenizer, to_chat_template, to_huggingface_file
from tests.support.dialect_documents import NAMES, parts, talks, texts
from tests.support.huggingface_chat import RefusedError, apply_template, encode_chat

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/chat.json").read_text())
CORPUS = ["the cat sat on the mat, the hat: 1+1", "naïve café 東京 👋 \n\n the hi hi abab"] * 2


@pytest.fixture(scope="module")
def own():
    return Tokenizer.train_from_iterator(CORPUS, 330)


@pytest.fixture(scope="module")
def peer(own):
    return Peer.from_str(to_huggingface_file(own.model).decode())


def texts_of(messages):
    for message in messages:
        content = message["content"]
        yield from [content] if isinstance(content, str) else (each["text"] for each in content)


def adjacent_parts(messages):
    """Yield each two adjacent parts of a message, without empty texts."""
    for message in messages:
        if isinstance(message["content"], list):
            own = [each for each in message["content"] if each["type"] != "text" or each["text"]]
            yield from pairwise(own)


def names_no_special_token(messages):
    return not any(name in text for text in texts_of(messages) for name in NAMES)


def has_adjacent_texts(messages):
    return any(a["type"] == b["type"] == "text" for a, b in adjacent_parts(messages))


def ends_a_text_before_output(messages):
    """Return whether tool output follows a text that ends with a multi-byte character."""
    return any(
        (a["type"], b["type"]) == ("text", "python_output") and a["text"][-1] > "\x7f"
        for a, b in adjacent_parts(messages)
    )


conversations = talks(texts | parts).filter(names_no_special_token)


@given(conversations.filter(lambda messages: not has_adjacent_texts(messages)), st.booleans())
def test_ids_and_mask_equal_ours(own, peer, messages, trimmed):
    ids, mask = own.render_conversation({"messages": messages}, max_tokens=None)
    found, found_mask = encode_chat(peer, CHAT_TEMPLATE, messages, trimmed=trimmed)
    assert found == ids
    if not ends_a_text_before_output(messages):
        assert found_mask == mask


@given(conversations)
def test_text_equals_ours_for_any_parts(own, messages):
    ids, _ = own.render_conversation({"messages": messages}, max_tokens=None)
    assert apply_template(CHAT_TEMPLATE, messages)[0] == own.decode(ids)


@given(conversations.filter(lambda messages: messages[-1]["role"] == "user"))
def test_add_generation_prompt_equals_render_for_completion(own, peer, messages):
    answered = [*messages, {"role": "assistant", "content": "x"}]
    if not has_adjacent_texts(messages):
        found, _ = encode_chat(peer, CHAT_TEMPLATE, messages, add_generation_prompt=True)
        assert found == own.render_for_completion({"messages": answered})
    with pytest.raises(RefusedError, match="must be from the user"):
        apply_template(CHAT_TEMPLATE, answered, add_generation_prompt=True)


@pytest.mark.parametrize("case", VECTORS["render"], ids=lambda case: case["name"])
def test_conversations_of_nanochat_render_with_the_template(own, peer, case):
    messages = case["messages"]
    ids, mask = own.render_conversation({"messages": messages}, max_tokens=None)
    found, found_mask = encode_chat(peer, CHAT_TEMPLATE, messages)
    if names_no_special_token(messages) and not has_adjacent_texts(messages):
        assert (found, found_mask) == (ids, mask)
    else:
        assert peer.decode(found, skip_special_tokens=False) == own.decode(ids)


@pytest.mark.parametrize(
    "case",
    [case for case in VECTORS["render_errors"] if "messages" in case],
    ids=lambda case: case["name"],
)
def test_what_nanochat_refuses_is_refused_with_the_same_message(own, case):
    with pytest.raises(RefusedError) as caught:
        apply_template(CHAT_TEMPLATE, case["messages"])
    if case["raises"] == "AssertionError":
        assert str(caught.value) == case["message"]


def test_a_tokenizer_without_the_tokens_of_nanochat_has_no_template(own):
    assert to_chat_template(own.model) == CHAT_TEMPLATE
    assert to_chat_template(own.model.extended(["<image>"])) == CHAT_TEMPLATE
    assert to_chat_template(own.model.without(["<|output_end|>"])) is None
    assert to_chat_template(own.model.without([*own.special_tokens])) is None


def test_text_before_tool_output_loses_the_last_bytes_of_its_mask(own, peer):
    said = [{"type": "text", "text": "\U0001f9e0"}, {"type": "python_output", "text": ""}]
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": said}]
    ids, mask = own.render_conversation({"messages": messages})
    found, found_mask = encode_chat(peer, CHAT_TEMPLATE, messages)
    assert found == ids
    text = mask.index(1)
    lost = [at for at, pair in enumerate(zip(mask, found_mask, strict=True)) if pair == (1, 0)]
    assert lost
    assert lost == list(range(text + 1, text + 1 + len(lost)))
    assert [b for a, b in zip(mask, found_mask, strict=True) if not a] == [0] * mask.count(0)
