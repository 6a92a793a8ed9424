import copy
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import chat
from nanotok_ray.recipe import SPECIAL_TOKENS
from tests.support.dialect_strategies import parts, talks, texts

conversations = talks(texts | parts).map(lambda messages: {"messages": messages})


def encode(text):
    return list(text.encode())


def special_id(name):
    return 256 + SPECIAL_TOKENS.index(name)


def texts_of(conversation):
    return [each.text for each in chat.layout(conversation) if not each.is_special]


def spelled(segments):
    return "".join(each.text for each in segments)


def decode(ids):
    names = [bytes([value]) for value in range(256)] + [name.encode() for name in SPECIAL_TOKENS]
    return b"".join(names[number] for number in ids).decode()


@given(conversations)
def test_ids_decode_to_the_expected_text_and_the_masked_ones_to_what_is_trained(conversation):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    assert decode(ids) == spelled(chat.layout(conversation))
    trained = [number for number, flag in zip(ids, mask, strict=True) if flag]
    assert decode(trained) == spelled(each for each in chat.layout(conversation) if each.mask)


@given(conversations, st.integers(0, 60))
def test_a_cut_keeps_the_first_ids_and_their_mask(conversation, limit):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    cut = chat.render(encode, special_id, conversation, max_tokens=limit)
    assert cut == (ids[:limit], mask[:limit])


@given(conversations)
def test_rendering_changes_nothing_in_its_input(conversation):
    before = copy.deepcopy(conversation)
    chat.render(encode, special_id, conversation, max_tokens=10)
    texts_of(conversation)
    assert conversation == before


@given(conversations)
def test_only_the_assistants_words_and_their_end_are_trained(conversation):
    segments = list(chat.layout(conversation))
    never = {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>"}
    never |= {"<|output_start|>", "<|output_end|>"}
    for segment in segments:
        if segment.is_special:
            assert segment.mask == (segment.text not in never)
    tool = [b for a, b in pairwise(segments) if a.text == "<|output_start|>"]
    assert not any(segment.mask for segment in tool if not segment.is_special)
