"""`apply_chat_template` and `render_batch` with any template, against jinja2 and `tokenizers`."""

import dataclasses
import json
from datetime import date
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Peer

from nanotok_ray.chat import RenderedBatch
from nanotok_ray.dialects import Dialect
from nanotok_ray.errors import ConversationError, TemplateError, TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, open_tokenizer, template_settings
from tests.support.huggingface_chat import RefusedError, apply_template, encode_chat
from tests.support.library_tokenizers import plain_sentence_piece
from tests.support.own_templates import (
    CHATML,
    CHATML_BLOCKS,
    CONVERSATIONS,
    HEADERS,
    ROLES,
    SEARCH,
    TEMPLATES,
    tokenizer_file,
    write_tokenizer,
)

QUESTION = CONVERSATIONS["a question"]
ANSWERED = CONVERSATIONS["two turns"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def own(folder):
    return open_tokenizer(folder)


@pytest.fixture(scope="module")
def peer():
    return Peer.from_str(tokenizer_file())


def for_template(messages):
    """Return messages as transformers passes them to a template."""
    return [
        {key: value for key, value in message.items() if value is not None}
        | ({"reasoning_content": message["reasoning"]} if "reasoning" in message else {})
        for message in messages
    ]


contents = st.text(st.sampled_from("ab \n\té🙂<|>{}%_") | st.characters(codec="utf-8"), max_size=9)
names = st.sampled_from(["<|im_end|>", "<|im_start|>assistant\n", "<think>", "assistant\n", ""])
said = st.tuples(contents, names, contents).map("".join)
messages_of_any_role = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system", "tool"]),
        said,
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@given(
    messages=messages_of_any_role | st.sampled_from([*CONVERSATIONS.values()]),
    more=st.fixed_dictionaries(
        {"tools": st.sampled_from([None, [SEARCH]]), "add_generation_prompt": st.booleans()}
    ),
)
def test_text_and_ids_equal_those_of_jinja2_and_tokenizers(own, peer, template, messages, more):
    options = {"chat_template": template, **more}
    try:
        text, _ = apply_template(template, for_template(messages), **ROLES, **more)
    except RefusedError as error:
        with pytest.raises(ConversationError, match=str(error)):
            own.apply_chat_template(messages, **options)
        return
    assert own.apply_chat_template(messages, tokenize=False, **options) == text
    ids = peer.encode(text, add_special_tokens=False).ids
    assert own.apply_chat_template(messages, return_dict=False, **options) == ids
    assert own.apply_chat_template(messages, **options) == {
        "input_ids": ids,
        "attention_mask": [1] * len(ids),
    }


@given(messages=messages_of_any_role, prompted=st.booleans(), length=st.integers(0, 40))
def test_the_mask_is_that_of_the_template_with_generation_blocks(
    own, peer, messages, prompted, length
):
    more = {"add_generation_prompt": prompted}
    ids, mask = encode_chat(peer, CHATML_BLOCKS, messages, **ROLES, **more)
    options = {"return_assistant_tokens_mask": True, **more}
    found = own.apply_chat_template(messages, chat_template=CHATML_BLOCKS, **options)
    assert (found["input_ids"], found["assistant_masks"]) == (ids, mask)
    options |= {"truncation": True, "max_length": length}
    found = own.apply_chat_template(messages, chat_template=CHATML_BLOCKS, **options)
    assert found["input_ids"] == ids[:length]
    assert found["assistant_masks"] == mask[:length]


@pytest.mark.parametrize("name", [name for name in CONVERSATIONS if name != "unknown role"])
def test_turns_are_located_without_blocks_or_the_reason_is_given(own, peer, name):
    messages = CONVERSATIONS[name]
    ids, mask = encode_chat(peer, CHATML_BLOCKS, for_template(messages), **ROLES)
    found = own.apply_chat_template(messages, return_assistant_tokens_mask=True)
    assert (found["input_ids"], found["assistant_masks"]) == (ids, mask)
    assert any(mask) == any(message["role"] == "assistant" for message in messages)


def test_the_mask_of_turns_that_cannot_be_located_is_refused(own):
    spelled = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    backwards = "{% for m in messages | reverse %}{{ m.content }}{% endfor %}"
    options = {"chat_template": backwards, "return_assistant_tokens_mask": True}
    with pytest.raises(ConversationError, match="cannot be located"):
        own.apply_chat_template([*spelled, *spelled], **options)
    prompted = "{{ add_generation_prompt }}{{ messages[0].content }}{{ messages[1].content }}"
    options |= {"chat_template": prompted, "add_generation_prompt": True}
    with pytest.raises(ConversationError, match="cannot be located"):
        own.apply_chat_template(spelled, **options)


@pytest.mark.parametrize(
    ("field", "template", "message", "end"),
    [
        (True, CHATML, {"content": "a cat "}, "assistant\na cat "),
        (True, HEADERS, {"content": " a cat "}, "<|/head|>\n\na cat"),
        (True, HEADERS, {"content": "a\n"}, "<|/head|>\n\na"),
        ("content", CHATML, {"content": "b", "reasoning_content": "so"}, "</think>\n\nb"),
        ("reasoning_content", CHATML, {"content": "", "reasoning": "so"}, "<think>\nso"),
    ],
)
def test_the_last_message_can_be_continued(own, field, template, message, end):
    messages = [*ANSWERED[:1], {"role": "assistant", **message}]
    options = {"chat_template": template, "continue_final_message": field}
    text = own.apply_chat_template(messages, tokenize=False, **options)
    whole = own.apply_chat_template(messages, tokenize=False, chat_template=template)
    assert text.endswith(end)
    assert whole.startswith(text)
    ids = own.apply_chat_template(messages, **options)
    assert own.decode(ids["input_ids"]) == text


def test_the_last_text_of_several_parts_is_continued(own):
    template = (
        "{% for m in messages %}{% for part in m.content %}[{{ part.text or part.type }}]"
        "{% endfor %}{% endfor %}"
    )
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "image"}]
    options = {"chat_template": template, "tokenize": False}
    messages = [{"role": "assistant", "content": parts}]
    assert own.apply_chat_template(messages, **options) == "[a][b][image]"
    assert own.apply_chat_template(messages, continue_final_message=True, **options) == "[a][b"
    assert parts[1] == {"type": "text", "text": "b"}
    messages = [{"role": "assistant", "content": parts[2:]}]
    with pytest.raises(ConversationError, match="the last message has no text"):
        own.apply_chat_template(messages, continue_final_message=True, **options)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"continue_final_message": "name"}, ConversationError, "the last message has no 'name'"),
        ({"continue_final_message": "note"}, ConversationError, "the template does not name"),
        (
            {"continue_final_message": True, "chat_template": "{{ 'content' }}"},
            ConversationError,
            "does not render 'content'",
        ),
        (
            {"continue_final_message": True, "return_assistant_tokens_mask": True},
            TokenizerError,
            "exclude each other",
        ),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            TokenizerError,
            "exclude each other",
        ),
        ({"return_tensors": "pt"}, TokenizerError, "return_tensors is not supported$"),
        ({"sanitize_control_tokens": True}, TokenizerError, "sanitize_control_tokens is not"),
        ({"tools": [print]}, TokenizerError, "tools: each must be a dict"),
        ({"chat_template": "rag"}, TemplateError, "no chat template is named 'rag'"),
        ({"chat_template": "{% if %}"}, TemplateError, "^line 1 of the template"),
        (
            {"chat_template": "{{ raise_exception('no') }}"},
            ConversationError,
            "refused by the chat template: TemplateError: no$",
        ),
    ],
)
def test_what_cannot_be_rendered_is_refused_with_the_reason(own, options, kind, message):
    messages = [*ANSWERED[:1], {"role": "assistant", "content": "b", "note": "x"}]
    with pytest.raises(kind, match=message):
        own.apply_chat_template(messages, **options)


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ([], "has no messages"),
        ({"conversations": []}, "has no messages"),
        (["hi"], "message 0 is a str"),
        ([{"role": "user"}], "refused by the chat template"),
    ],
)
def test_a_malformed_conversation_is_refused(own, conversation, message):
    with pytest.raises(ConversationError, match=message):
        own.apply_chat_template(conversation)


def test_variables_documents_and_the_date_are_passed_to_the_template(own):
    found = own.apply_chat_template(
        QUESTION,
        chat_template=HEADERS,
        documents=[{"title": "T", "text": "x"}],
        add_date=True,
        bos_token="<|pad|>",
        padding=False,
        tokenize=False,
    )
    today = date.today().strftime("%d %b %Y")
    assert found.startswith(
        f"<|pad|><|head|>date<|/head|>{today}<|eot|><|head|>document<|/head|>T: x<|eot|>"
    )
    shown = {"numbers": (1, 2), "b": 1, "a": [None, True, 1.5]}
    text = own.apply_chat_template(
        QUESTION, chat_template="{{ v }}{{ v | tojson }}", v=shown, tokenize=False
    )
    assert text == f"{shown}{json.dumps(shown)}"


@dataclasses.dataclass
class Said:
    role: str
    content: object
    name: str | None = None


class Modelled:
    def model_dump(self):
        return {"role": np.str_("user"), "content": "b"}


def test_objects_become_plain_data(own):
    template = "{% for m in messages %}{{ m }};{% endfor %}"
    messages = [Said("user", [{"type": "image", "image": object()}]), Modelled()]
    text = own.apply_chat_template(messages, chat_template=template, tokenize=False)
    image = {"role": "user", "content": [{"type": "image", "image": "<object>"}]}
    assert text == f"{image};{{'role': 'user', 'content': 'b'}};"


def test_several_conversations_are_lists_of_each(own):
    options = {"return_assistant_tokens_mask": True}
    batch = [ANSWERED, CONVERSATIONS["reasoning"]]
    each = [own.apply_chat_template(messages, **options) for messages in batch]
    together = {name: [found[name] for found in each] for name in each[0]}
    assert own.apply_chat_template(batch, **options) == together
    assert own.apply_chat_template([{"messages": one} for one in batch], **options) == together
    plainly = [own.apply_chat_template(messages, tokenize=False) for messages in batch]
    assert own.apply_chat_template(batch, tokenize=False) == plainly


def test_a_tokenizer_has_several_templates(tmp_path):
    folder = write_tokenizer(tmp_path / "several", None)
    texts = {"default": "{{ 1 }}", "tool_use": "{{ 2 }}", "rag": "{{ 3 }}"}
    rows = [{"name": name, "template": text} for name, text in texts.items()]
    (folder / "tokenizer_config.json").write_text(json.dumps({**ROLES, "chat_template": rows}))
    own = open_tokenizer(folder)
    assert own.apply_chat_template(QUESTION, tokenize=False) == "1"
    assert own.apply_chat_template(QUESTION, tokenize=False, tools=[SEARCH]) == "2"
    named = {"tokenize": False, "chat_template": "rag", "tools": [SEARCH]}
    assert own.apply_chat_template(QUESTION, **named) == "3"
    batch = own.render_batch([json.dumps(QUESTION)], template="rag")
    assert own.decode(batch.ids) == "3"


@pytest.mark.parametrize("given", [CHATML, {"default": CHATML, "tool_use": HEADERS}])
def test_the_template_of_an_object_of_transformers_is_used(own, peer, given):
    class Fast:
        backend_tokenizer, chat_template = peer, given
        special_tokens_map = ROLES | {"additional_special_tokens": ["<|eot|>"]}

    of_object = open_tokenizer(Fast())
    for options in ({}, {"return_assistant_tokens_mask": True}, {"chat_template": HEADERS}):
        found = of_object.apply_chat_template(ANSWERED, **options)
        assert found == own.apply_chat_template(ANSWERED, **options)
    text = of_object.apply_chat_template(ANSWERED, tools=[SEARCH], tokenize=False)
    assert text.startswith("<|begin|><|head|>") == isinstance(given, dict)


def test_nanochats_rendering_is_used_unless_a_template_is_named(tmp_path):
    folder = write_tokenizer(tmp_path / "both")
    own = open_tokenizer(folder).extended([*SPECIAL_TOKENS])
    found = own.apply_chat_template(ANSWERED, return_dict=False)
    assert found == own.render_conversation({"messages": ANSWERED}, max_tokens=None)[0]
    with pytest.raises(TokenizerError, match="tools is not supported; conversations are rendered"):
        own.apply_chat_template(ANSWERED, tools=[SEARCH])
    with pytest.raises(TokenizerError, match="enable_thinking is not supported"):
        own.apply_chat_template(ANSWERED, enable_thinking=True)
    text = own.apply_chat_template(ANSWERED, tokenize=False, chat_template="default")
    assert text == apply_template(CHATML, for_template(ANSWERED), **ROLES)[0]


def test_the_mask_needs_positions_and_sentencepiece_has_no_templates(tmp_path):
    composes = open_tokenizer(write_tokenizer(tmp_path / "nfc", composes=True))
    messages = [
        {"role": "user", "content": "e\u0301"},
        {"role": "assistant", "content": "a\u0301b"},
    ]
    found = composes.apply_chat_template(messages, return_assistant_tokens_mask=True)
    learned = [
        n for n, flag in zip(found["input_ids"], found["assistant_masks"], strict=True) if flag
    ]
    assert composes.decode(learned) == "\u00e1b<|im_end|>\n"
    (tmp_path / "any.model").write_bytes(plain_sentence_piece())
    pieces = open_tokenizer(tmp_path / "any.model")
    with pytest.raises(TemplateError, match="sentencepiece does not"):
        pieces.apply_chat_template(messages, chat_template=CHATML)


def rows(batch):
    """Return the ids and the mask of each document."""
    bounds = batch.offsets.tolist()
    return [
        (batch.ids[start:end].tolist(), batch.mask[start:end].tolist())
        for start, end in pairwise(bounds)
    ]


@pytest.mark.parametrize("num_threads", [1, 3])
def test_render_batch_renders_as_apply_chat_template(own, num_threads):
    given = [messages for name, messages in CONVERSATIONS.items() if name != "spelled"]
    lines = [json.dumps({"messages": messages, "tools": [SEARCH]}) for messages in given]
    settings = template_settings(own.model, tools="tools")
    batch = own.render_batch(lines, template=settings, num_threads=num_threads)
    assert isinstance(batch, RenderedBatch)
    assert {*batch.problems} == {len(given) - 1}
    assert "Unknown role: critic" in batch.problems[len(given) - 1]
    expected = [
        own.apply_chat_template(messages, tools=[SEARCH], return_assistant_tokens_mask=True)
        for messages in given[:-1]
    ]
    assert rows(batch)[:-1] == [(one["input_ids"], one["assistant_masks"]) for one in expected]
    same = own.render_batch(lines, Dialect(kind="chat", name="messages", tools="tools"))
    assert rows(same) == rows(batch)
    without = own.render_batch(lines)
    assert len(without.ids) < len(batch.ids)


def test_render_batch_has_the_settings_of_a_recipe(own, tmp_path):
    path = tmp_path / "headers.jinja"
    path.write_text(HEADERS)
    dated = template_settings(own.model, str(path), date="2026-01-31")
    lines = [json.dumps({"prompt": "a", "response": "b<|eot|>"})]
    with pytest.raises(TemplateError, match="set template_date"):
        own.render_batch(lines, "prompt-response", template=str(path))
    batch = own.render_batch(lines, "prompt-response", template=dated)
    assert batch.problems[0].startswith("special token in a message: '<|eot|>'")
    texts = {
        rule: own.render_batch(
            lines, "prompt-response", template=dated, special_text=rule
        ).ids.tolist()
        for rule in ("text", "recognise")
    }
    name = own.encode_special("<|eot|>")
    assert [ids.count(name) for ids in texts.values()] == [2, 3]
    assert own.decode(texts["text"]) == own.decode(texts["recognise"])
    last = template_settings(own.model, train_on="last")
    both = [own.render_batch([json.dumps(ANSWERED)], template=one) for one in ("auto", last)]
    assert [one.mask.sum() for one in both] == [6, 3]
    with pytest.raises(TemplateError, match="no chat template is named 'rag'"):
        own.render_batch(lines, template="rag")


def test_render_batch_renders_as_nanochat_if_asked(own):
    nanochat = Tokenizer.train_from_iterator([], vocab_size=265)
    lines = [json.dumps(ANSWERED)]
    auto, named = (nanochat.render_batch(lines, template=one) for one in ("auto", "nanochat"))
    assert rows(auto) == rows(named)
    ids, mask = nanochat.render_conversation({"messages": ANSWERED})
    assert rows(auto) == [(ids, mask)]
