import copy
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import chat
from nanotok_ray.errors import SourceError
from nanotok_ray.special_tokens import SPECIAL_TOKENS

texts = st.text(max_size=8)
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "python", "python_output"]), "text": texts}
)


@st.composite
def conversations(draw):
    messages = []
    for turn in range(draw(st.integers(1, 5))):
        if turn % 2 == 0:
            messages.append({"role": "user", "content": draw(texts)})
        else:
            content = draw(texts | st.lists(parts, max_size=4))
            messages.append({"role": "assistant", "content": content})
    if draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(texts)})
    return {"messages": messages}


def encode(text):
    return list(text.encode())


def special_id(name):
    return 256 + SPECIAL_TOKENS.index(name)


def decode(ids):
    names = [bytes([value]) for value in range(256)] + [name.encode() for name in SPECIAL_TOKENS]
    return b"".join(names[number] for number in ids).decode()


@given(conversations())
def test_ids_decode_to_the_expected_text_and_the_masked_ones_to_what_is_trained(conversation):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    assert decode(ids) == chat.expected_text(conversation)
    trained = [number for number, flag in zip(ids, mask, strict=True) if flag]
    assert decode(trained) == chat.expected_trained_text(conversation)


@given(conversations(), st.integers(0, 60))
def test_a_cut_keeps_the_first_ids_and_their_mask(conversation, limit):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    cut = chat.render(encode, special_id, conversation, max_tokens=limit)
    assert cut == (ids[:limit], mask[:limit])


@given(conversations())
def test_rendering_changes_nothing_in_its_input(conversation):
    before = copy.deepcopy(conversation)
    chat.render(encode, special_id, conversation, max_tokens=10)
    chat.message_texts(conversation)
    assert conversation == before


@given(conversations())
def test_texts_are_encoded_one_by_one_in_the_order_of_message_texts(conversation):
    asked = []

    def remember(text):
        asked.append(text)
        return encode(text)

    chat.render(remember, special_id, conversation, max_tokens=3)
    assert asked == chat.message_texts(conversation)


@given(conversations())
def test_only_the_assistants_words_and_their_end_are_trained(conversation):
    segments = list(chat.layout(conversation))
    never = {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>"}
    never |= {"<|output_start|>", "<|output_end|>"}
    for segment in segments:
        if segment.is_special:
            assert segment.mask == (segment.text not in never)
    tool = [b for a, b in pairwise(segments) if a.text == "<|output_start|>"]
    assert not any(segment.mask for segment in tool if not segment.is_special)


def test_a_completion_prompt_ends_where_the_assistant_starts():
    conversation = {
        "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    }
    before = copy.deepcopy(conversation)
    ids = chat.render_for_completion(encode, special_id, conversation, max_tokens=None)
    assert decode(ids) == "<|bos|><|user_start|>hi<|user_end|><|assistant_start|>"
    assert conversation == before


@pytest.mark.parametrize("shape", ["array", "object"])
@given(conversation=conversations())
def test_a_line_is_an_array_of_messages_or_an_object_that_holds_it(shape, conversation):
    value = conversation["messages"] if shape == "array" else {**conversation, "id": 7}
    assert chat.parse_conversation(json.dumps(value).encode()) == conversation


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "invalid JSON: Expecting value"),
        (b"not json", "invalid JSON: Expecting value: line 1 column 1"),
        (b'["\xff"]', "invalid UTF-8 at byte 2"),
        (b'"hello"', "got a string"),
        (b"null", "got null"),
        (b"true", "got a boolean"),
        (b"1.5", "got a number"),
        (b'{"text": "x", "id": 1}', "got an object with the keys 'text', 'id'"),
        (b'{"messages": "x"}', "got an object with the keys 'messages'"),
        (b"{}", r"got an object with the keys \(none\)"),
        (b"[]", "the conversation has no messages"),
        (b'{"messages": []}', "the conversation has no messages"),
        (b'[{"role": "user", "content": "a"}, "x"]', "message 1 is a string, not an object"),
        (b"[[1]]", "message 0 is an array, not an object"),
        (b'[{"content": "a"}]', "message 0 has no 'role'"),
        (b'[{"role": "user"}]', "message 0 has no 'content'"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
        (b"9" * 5000, "invalid JSON: Exceeds the limit"),
    ],
    ids=str,
)
def test_a_line_that_is_no_conversation_is_refused_with_a_reason(line, message):
    with pytest.raises(SourceError, match=message) as caught:
        chat.parse_conversation(line)
    assert chat.reason_of(caught.value) == str(caught.value)


USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([{"text": "x"}], "KeyError: 'type'"),
        ([{"type": "text"}], "KeyError: 'text'"),
        (["x"], "TypeError: string indices must be integers, not 'str'"),
        ([{"type": "image", "text": "x"}], "Unknown part type: image"),
        ([{"type": ["text"], "text": "x"}], "Unknown part type: ['text']"),
        ([{"type": "text", "text": None}], "Invalid input type: <class 'NoneType'>"),
        ([{"type": "nonsense", "text": ["x"]}], "Invalid input type: <class 'list'>"),
        (None, "Unknown content type: <class 'NoneType'>"),
    ],
    ids=str,
)
def test_a_malformed_answer_has_a_reason(answer, reason):
    conversation = {"messages": [USER, {"role": "assistant", "content": answer}]}
    with pytest.raises(chat.MALFORMED) as caught:
        chat.message_texts(conversation)
    assert chat.reason_of(caught.value) == reason
