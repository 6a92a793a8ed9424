"""Methods of tiktoken and Hugging Face, compared with the originals on generated texts."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import ConversationError, TokenizerError, UnknownTokenError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import CHAT_TEMPLATE, Tokenizer, to_huggingface_file
from tests.support.huggingface_chat import apply_template, encode_chat

CORPUS = ["the cat sat on the mat", "naïve café 你好 🙂", "<|bos|> <|user_start|>", "  x\n\n y"]
NAMES = [*SPECIAL_TOKENS, "<end>"]

letters = st.text(st.sampled_from("aab the''s12 \n\u00a0é\u0301你🙂<|>") | st.characters())
texts = st.lists(letters | st.sampled_from([*NAMES, "<|bos|", "|>"]), max_size=8).map("".join)
whole_texts = texts.filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))
names = st.sets(st.sampled_from([*NAMES, "<|unknown|>", "the"]), max_size=4)


@pytest.fixture(scope="module")
def own():
    return Tokenizer.train_from_iterator(CORPUS, 320, special_tokens=NAMES)


@pytest.fixture(scope="module")
def tiktokens(own):
    return own.to_tiktoken()


@pytest.fixture(scope="module")
def peer(own):
    return tokenizers.Tokenizer.from_str(to_huggingface_file(own.model).decode())


def result_of(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except ValueError:
        return ValueError


def test_the_vocabulary_and_its_size_equal_those_of_hugging_face_and_tiktoken(own, tiktokens, peer):
    assert len(own) == own.vocab_size == own.n_vocab == own.get_vocab_size()
    assert own.n_vocab == tiktokens.n_vocab == peer.get_vocab_size()
    vocab = own.get_vocab()
    assert vocab == peer.get_vocab()
    for name in [*vocab, "no such token", "", " "]:
        assert own.token_to_id(name) == peer.token_to_id(name)
    vocab.clear()
    assert own.get_vocab()
    spelled_alike = Tokenizer.train_from_iterator(["ab ab"], 258, special_tokens=["a"])
    assert spelled_alike.token_to_id("a") == spelled_alike.special_tokens["a"] == 257
    assert spelled_alike.get_vocab()["a"] == 257


@given(text=texts)
def test_ordinary_ids_equal_tiktoken(own, tiktokens, text):
    assert own.encode_ordinary(text) == tiktokens.encode_ordinary(text) == own.encode(text)
    assert own.encode(text, disallowed_special=()) == own.encode(text)


some_or_all = names | st.just("all")


@given(text=texts, allowed=some_or_all, disallowed=some_or_all | names.map(list))
def test_allowed_and_disallowed_special_tokens_equal_tiktoken(
    own, tiktokens, text, allowed, disallowed
):
    for options in (
        {"allowed_special": allowed, "disallowed_special": ()},
        {"allowed_special": allowed, "disallowed_special": disallowed},
        {"allowed_special": allowed},  # then all others are disallowed, as in tiktoken
        {"disallowed_special": disallowed},
    ):
        found = result_of(own.encode, text, **options)
        assert found == result_of(tiktokens.encode, text, **options)


@given(batch=st.lists(texts, max_size=5), allowed=names, threads=st.integers(1, 3))
def test_a_list_of_texts_has_the_ids_of_each(own, batch, allowed, threads):
    options = {"allowed_special": allowed, "disallowed_special": ()}
    found = own.encode(batch, "<|bos|>", "<end>", threads, **options)
    assert found == [own.encode(text, "<|bos|>", "<end>", **options) for text in batch]


def test_a_disallowed_special_token_is_named_with_its_position_and_the_remedy(own):
    with pytest.raises(TokenizerError, match=r"'<\|bos\|>' at character 2.*allowed_special=\{'<\|"):
        own.encode("é <|bos|>", allowed_special={"<end>"})
    for name in ("allowed_special", "disallowed_special"):
        with pytest.raises(TokenizerError, match=f"{name} is one name, '<end>': pass a set"):
            own.encode("a", **{name: "<end>"})


@given(text=whole_texts)
def test_offsets_equal_hugging_face_and_tiktoken(own, tiktokens, peer, text):
    for found, options in (
        (own.encode_with_offsets(text), False),
        (own.encode_with_offsets(text, allowed_special="all"), True),
    ):
        peer.encode_special_tokens = not options
        theirs = peer.encode(text, add_special_tokens=False)
        assert (found.ids, found.char_offsets) == (theirs.ids, theirs.offsets)
        starts = [start for start, _ in found.char_offsets]
        assert tiktokens.decode_with_offsets(found.ids) == (text, starts)
        data = text.encode()
        for number, (start, end) in zip(found.ids, found.byte_offsets, strict=True):
            assert data[start:end] == own.decode_single_token_bytes(number)
    assert b"".join(data[start:end] for start, end in found.byte_offsets) == data
    pair = own.encode_with_offsets("a\ud83d\ude42b")
    assert pair == own.encode_with_offsets("a🙂b")  # offsets of the character


class Tensor:
    """Has `tolist`, and yields values that are not Python numbers."""

    def __init__(self, ids):
        self._ids = ids

    def __iter__(self):
        return map(np.array, self._ids)

    def tolist(self):
        return self._ids


def exported(array):
    """Return the values as an object of another Arrow library."""
    return SimpleNamespace(__arrow_c_stream__=pa.chunked_array([array]).__arrow_c_stream__)


KINDS = {
    "tuple": tuple,
    "iterator": iter,
    "int64": np.array,
    "uint16": lambda ids: np.array(ids, np.uint16),
    "a part": lambda ids: np.repeat(np.array(ids, np.uint32), 2)[::2],
    "big endian": lambda ids: np.array(ids, ">i4"),
    "arrow": lambda ids: pa.array(ids, pa.uint16()),
    "arrow int64": lambda ids: pa.array(ids, pa.int64()),
    "chunked": lambda ids: pa.chunked_array([ids[:1], ids[1:]], pa.uint32()),
    "a row of lists": lambda ids: pa.array([[1], ids], pa.list_(pa.uint16()))[1],
    "exported": lambda ids: exported(pa.array(ids, pa.int32())),
    "tensor": Tensor,
}


@pytest.mark.parametrize("kind", list(KINDS))
@given(text=texts)
def test_ids_of_any_type_are_decoded(own, kind, text):
    ids = own.encode(text, allowed_special="all")
    assert own.decode_bytes(KINDS[kind](ids)) == own.decode_bytes(ids)
    assert own.decode(KINDS[kind](ids)) == own.decode(ids)
    for unknown in ([97, 5000], [97] * 20 + [5000]):
        with pytest.raises(KeyError, match="Invalid token for decoding: 5000"):
            own.decode(KINDS[kind](unknown))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (7, "ids is an int: expected a list"),
        ("abc", "ids is a str"),
        (np.array([[1, 2]]), "a 2-d array of int64: .* decode_batch decodes many rows"),
        (np.array([1.0]), "a 1-d array of float64: expected one row of integers"),
        (np.array([True]), "a 1-d array of bool"),
        (pa.array([1, None]), "ids holds nulls"),
        (pa.array(["a"]), "expected one row of integers"),
    ],
)
def test_values_that_are_not_rows_of_ids_are_refused(own, ids, message):
    with pytest.raises(TypeError, match=message):
        own.decode(ids)


def test_an_unknown_special_token_is_named_with_the_known_ones(own):
    for attempt in (own.encode_special, lambda name: own.encode("a", prepend=name)):
        with pytest.raises(UnknownTokenError) as caught:
            attempt("<|eot|>")
        assert isinstance(caught.value, KeyError)
        assert str(caught.value).startswith("'<|eot|>' is neither a special token")
        assert "<|bos|>, <|user_start|>" in str(caught.value)
        assert "Tokenizer.extended" in str(caught.value)


# Conversations


def talk(said):
    """Return alternating messages of user and assistant."""
    people = ("user", "assistant")
    return [{"role": people[n % 2], "content": text} for n, text in enumerate(said)]


talks = st.lists(letters, min_size=1, max_size=4).map(talk)
plain_talks = talks.filter(
    lambda messages: not any(name in json.dumps(messages) for name in (*NAMES, "\\ud"))
)


@given(messages=plain_talks)
def test_the_chat_template_returns_what_hugging_face_returns(own, peer, messages):
    peer.encode_special_tokens = False
    ids, mask = encode_chat(peer, CHAT_TEMPLATE, messages)
    whole = {"input_ids": ids, "attention_mask": [1] * len(ids)}
    assert own.apply_chat_template(messages) == whole
    masked = own.apply_chat_template(messages, return_assistant_tokens_mask=True)
    assert masked == whole | {"assistant_masks": mask}
    assert own.apply_chat_template(messages, return_dict=False) == ids
    text, _ = apply_template(CHAT_TEMPLATE, messages)
    assert own.apply_chat_template(messages, tokenize=False) == text
    if messages[-1]["role"] == "user":
        ids, _ = encode_chat(peer, CHAT_TEMPLATE, messages, add_generation_prompt=True)
        found = own.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert found == ids


@given(messages=talks, length=st.integers(0, 9))
def test_a_conversation_is_rendered_whole_unless_truncated(own, messages, length):
    ids, mask = own.render_conversation({"messages": messages}, max_tokens=None)
    options = {"return_assistant_tokens_mask": True, "max_length": length}
    found = own.apply_chat_template({"messages": messages}, **options)
    assert (found["input_ids"], found["assistant_masks"]) == (ids, mask)
    found = own.apply_chat_template(messages, truncation=True, **options)
    assert (found["input_ids"], found["assistant_masks"]) == (ids[:length], mask[:length])


@given(batch=st.lists(talks, min_size=1, max_size=3))
def test_several_conversations_are_lists_of_each(own, batch):
    each = [own.apply_chat_template(messages) for messages in batch]
    together = {name: [found[name] for found in each] for name in each[0]}
    assert own.apply_chat_template(batch) == together
    assert own.apply_chat_template([{"messages": messages} for messages in batch]) == together
    plainly = [own.apply_chat_template(messages, tokenize=False) for messages in batch]
    assert own.apply_chat_template(batch, tokenize=False) == plainly


def test_the_last_answer_can_be_left_open(own):
    messages = talk(["hi", "the cat"])
    whole = own.apply_chat_template(messages, tokenize=False)
    found = own.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    assert found + "<|assistant_end|>" == whole
    with pytest.raises(ConversationError, match="the last message is from 'user'"):
        own.apply_chat_template(messages[:1], continue_final_message=True)
    with pytest.raises(ConversationError, match="must be from the user"):
        own.apply_chat_template(messages, add_generation_prompt=True)
    with pytest.raises(ConversationError, match="a message is missing before the last"):
        own.render_for_completion({"messages": messages[1:]})
    more = [{**message, "tool_calls": None} for message in messages]
    options = {"tools": None, "padding": False, "tokenize": False}
    assert own.apply_chat_template(more, **options) == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [{}]}, "tools is not supported"),
        ({"chat_template": "x"}, "no chat template is named 'x'"),
        ({"return_tensors": "np"}, "return_tensors is not supported"),
        ({"return_assistant_tokens_mask": True, "return_dict": False}, "needs return_dict=True"),
        ({"return_assistant_tokens_mask": True, "tokenize": False}, "needs return_dict=True"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "exclude each other"),
    ],
)
def test_unsupported_arguments_of_the_template_are_refused(own, options, message):
    with pytest.raises(TokenizerError, match=message):
        own.apply_chat_template(talk(["hi", "yo"]), **options)


BAD = [
    ([], TypeError, 'it is a list: expected {"messages"'),
    ({}, KeyError, "it has no 'messages', only nothing"),
    ({"conversations": []}, KeyError, "it has no 'messages', only conversations"),
    ({"messages": []}, IndexError, "it has no messages"),
    ({"messages": "hi"}, TypeError, "its messages are a str: expected a list"),
    ({"messages": ["hi"]}, TypeError, "message 0 is a str: expected a dict"),
    ({"messages": [{"from": "user"}]}, KeyError, "message 0 has no 'role', only from"),
    ({"messages": [{"role": "user"}]}, KeyError, "message 0 has no 'content', only role"),
    ({"messages": [{"role": "system", "content": ""}]}, IndexError, "a system message alone"),
    (
        {"messages": [*talk(["hi"]), {"role": "assistant", "content": [{"type": "text"}]}]},
        KeyError,
        'message 1 has a part that is not {"type": ..., "text": ...}',
    ),
]


@pytest.mark.parametrize(("conversation", "kind", "message"), BAD)
def test_a_malformed_conversation_is_refused_with_the_cause(own, conversation, kind, message):
    with pytest.raises(kind) as caught:
        own.render_conversation(conversation)
    assert isinstance(caught.value, ConversationError)
    assert str(caught.value).startswith(f"the conversation cannot be rendered: {message}")
