import copy
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import chat
from nanotok_ray.recipe import SPECIAL_TOKENS

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


def texts_of(conversation):
    return [each.text for each in chat.layout(conversation) if not each.is_special]


def spelled(segments):
    return "".join(each.text for each in segments)


def decode(ids):
    names = [bytes([value]) for value in range(256)] + [name.encode() for name in SPECIAL_TOKENS]
    return b"".join(names[number] for number in ids).decode()


@given(conversations())
def test_ids_decode_to_the_expected_text_and_the_masked_ones_to_what_is_trained(conversation):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    assert decode(ids) == spelled(chat.layout(conversation))
    trained = [number for number, flag in zip(ids, mask, strict=True) if flag]
    assert decode(trained) == spelled(each for each in chat.layout(conversation) if each.mask)


@given(conversations(), st.integers(0, 60))
def test_a_cut_keeps_the_first_ids_and_their_mask(conversation, limit):
    ids, mask = chat.render(encode, special_id, conversation, max_tokens=None)
    cut = chat.render(encode, special_id, conversation, max_tokens=limit)
    assert cut == (ids[:limit], mask[:limit])


@given(conversations())
def test_rendering_changes_nothing_in_its_input(conversation):
    before = copy.deepcopy(conversation)
    chat.render(encode, special_id, conversation, max_tokens=10)
    texts_of(conversation)
    assert conversation == before


@given(conversations())
def test_texts_are_encoded_one_by_one_in_the_order_of_the_layout(conversation):
    asked = []

    def remember(text):
        asked.append(text)
        return encode(text)

    chat.render(remember, special_id, conversation, max_tokens=3)
    assert asked == texts_of(conversation)


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
