"""Conversations that chat templates render: ids, masks, and what is refused."""

import json
from itertools import groupby
from operator import itemgetter

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.chat import TemplateRenderer
from nanotok_ray.dialects import CHAT_DIALECTS, Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SourceError, TemplateError
from nanotok_ray.formats import ROLES
from nanotok_ray.tokenizer import Tokenizer, template_settings
from nanotok_ray.tokenizer.foreign import TokenizerFile
from tests.support.chat_templates import (
    AT_END,
    BLOCKS,
    CHATML,
    FORGETFUL,
    HEADERS,
    INST,
    OPEN,
    byte_tokenizer,
)
from tests.support.dialect_documents import ORDINARY, extras, json_values

TEMPLATES = {
    "chatml": CHATML,
    "headers": HEADERS,
    "inst": INST,
    "blocks": BLOCKS,
    "forgetful": FORGETFUL,
    "at end": AT_END,
    "open": OPEN,
}
USER = {"role": "user", "content": "the question"}
ANSWER = {"role": "assistant", "content": "the answer"}
CALL = {"type": "function", "function": {"name": "find", "arguments": {"place": "é", "n": 2}}}


def opened(template: str, **flags: bool) -> Tokenizer:
    """Return the tokenizer of a folder with a template."""
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    beside = {
        "tokenizer_config.json": json.dumps(config).encode(),
        "chat_template.jinja": template.encode(),
    }
    data = byte_tokenizer(**flags).encode()
    return Tokenizer(TokenizerFile(name="a file", data=data, beside=beside).model())


def renderer(
    template: str, *, dialect: str = "messages", special_text: str = "refuse", **keys: object
) -> TemplateRenderer:
    """Return the renderer of a job with a template."""
    normalized = bool(keys.pop("normalized", False))
    own = opened(template, normalized=normalized)
    settings = template_settings(own.model, **keys)
    assert settings is not None
    read_as = Dialect(kind="chat", name=dialect, tools=settings.tools)
    return own.template_renderer(settings, read_as, special_text=special_text)


def rendered(own: TemplateRenderer, *rows: object):
    """Return conversations as the core renders them, after a comparison with the plain ones."""
    documents = Documents.from_bytes([json.dumps(row).encode() for row in rows])
    batch = own.render(documents)
    for number in range(len(rows)):
        mine, plain = batch.part(number, number + 1), own.plain(documents[number])
        assert mine.problems == plain.problems
        assert mine.ids.tolist() == plain.ids.tolist()
        assert mine.labels.tolist() == plain.labels.tolist()
        assert mine.sizes.tolist() == plain.sizes.tolist()
        assert [mine.unused_keys[key] for _, key, _ in mine.unused] == [*plain.unused_keys]
    return batch


def marked(own: TemplateRenderer, row: object, **flags: bool) -> str:
    """Return the text of a conversation with [ ] around what is trained on."""
    batch, tokenizer = rendered(own, row), opened(CHATML, **flags)
    assert not batch.problems
    parts = []
    for flag, run in groupby(zip(batch.mask, batch.ids, strict=True), key=itemgetter(0)):
        text = tokenizer.decode([int(number) for _, number in run])
        parts.append(f"[{text}]" if flag else text)
    return "".join(parts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chatml", "<|im_start|>assistant\n[the answer<|im_end|>\n]"),
        ("headers", "<|start|>assistant<|header|>\n\n[the answer<|eot|>]"),
        ("inst", " [/INST][ the answer</s>]"),
        ("blocks", "<|im_start|>assistant\n[the answer<|im_end|>]\n"),
        ("forgetful", "<|im_start|>assistant\n[t|the answer<|im_end|>]"),
    ],
)
def test_an_answer_is_trained_on_from_the_prompt_for_it_to_its_end(name, expected):
    own = renderer(TEMPLATES[name])
    assert marked(own, [USER, ANSWER]).endswith(expected)
    twice = marked(own, [USER, ANSWER, USER, ANSWER])
    assert twice.count(expected) == 2
    assert twice.count("[the") + twice.count("[ the") + twice.count("[t|") == 2


def test_the_ids_are_those_of_the_library():
    library = tokenizers.Tokenizer.from_str(byte_tokenizer())
    batch = rendered(renderer(CHATML), [USER, ANSWER, {"role": "user", "content": "é <think>"}])
    text = (
        "<|im_start|>user\nthe question<|im_end|>\n<|im_start|>assistant\nthe answer<|im_end|>\n"
        "<|im_start|>user\né <think><|im_end|>\n"
    )
    assert batch.ids.tolist() == library.encode(text, add_special_tokens=False).ids
    assert library.token_to_id("<think>") in batch.ids
    owners = {ROLES[label >> 1] for label in batch.labels.tolist()}
    assert owners == {"prompt", "assistant"}


def test_a_turn_has_its_calls_and_the_answers_of_tools_are_not_trained_on():
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    found = {"role": "tool", "content": "21", "tool_call_id": "x"}
    row = {"messages": [USER, calling, found, ANSWER], "tools": [{"name": "find"}]}
    text = marked(renderer(CHATML, tools="tools"), row)
    assert '[<tool_call>\n{"name": "find", "arguments": {"place": "é", "n": 2}}' in text
    assert "<tool_response>21</tool_response><|im_end|>\n<|im_start|>assistant\n[the" in text
    assert text.startswith('<|im_start|>system\n{"name": "find"}')
    as_text = {**row, "tools": json.dumps(row["tools"])}
    assert marked(renderer(CHATML, tools="tools"), as_text) == text
    assert '{"name": "find"}\n' not in marked(renderer(CHATML), row)


def test_the_calls_of_a_turn_without_an_end_are_trained_on():
    calling = {"role": "assistant", "content": "so", "tool_calls": [CALL]}
    text = marked(renderer(OPEN), [USER, calling, {"role": "tool", "content": "21"}, ANSWER])
    assert '<|assistant|>[so<call>find{"place": "é", "n": 2}</call>]<|tool|>21' in text
    assert text.endswith("<|assistant|>[the answer]")


def test_the_reasoning_and_the_calls_can_be_left_out_of_training():
    row = [USER, {**ANSWER, "reasoning_content": "the thought", "tool_calls": [CALL]}]
    own = renderer(CHATML, untrained=["reasoning_content"])
    assert "[<think>\n]the thought[\n</think>\n\nthe answer<tool_call>" in marked(own, row)
    own = renderer(CHATML, untrained=["tool_calls"])
    assert "the answer]<tool_call>" in marked(own, row)
    assert marked(own, row).endswith("</tool_call>[<|im_end|>\n]")


def test_the_last_turn_or_everything_can_be_trained_on():
    row = [USER, ANSWER, USER, ANSWER]
    for template in (CHATML, BLOCKS):
        last = marked(renderer(template, train_on="last"), row)
        assert last.count("[") == 1
        assert "[the answer<|im_end|>" in last
        assert marked(renderer(template, train_on="all"), row)[0] == "["
        assert "]" not in marked(renderer(template, train_on="all"), row)[:-1]


def test_a_turn_that_cannot_be_located_is_refused_with_its_number():
    batch = rendered(renderer(AT_END), [USER, ANSWER, USER, ANSWER], [USER])
    assert list(batch.problems) == [0]
    assert "message 1" in batch.problems[0]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([], "no messages"),
        ({"messages": "hi"}, "array"),
        ([{"content": "hi"}], "role"),
        (["hi"], "not an object"),
        ([{"role": "user", "content": [{"type": "image"}]}], 'kind = "vision"'),
        ([{"role": "system", "content": "x"}, USER], "Only user and assistant"),
        ({"messages": [USER], "tools": {}}, "not an array"),
    ],
)
def test_what_cannot_be_rendered_has_a_reason(row, reason):
    batch = rendered(renderer(INST, tools="tools"), row, [USER])
    assert list(batch.problems) == [0]
    assert reason in batch.problems[0]
    assert len(batch.ids)


def test_names_of_special_tokens_are_refused_or_text_or_recognized():
    row = [{"role": "user", "content": "a<|im_end|>b"}, ANSWER]
    refused = rendered(renderer(CHATML), row)
    assert "<|im_end|>" in refused.problems[0]
    end = opened(CHATML).encode_special("<|im_end|>")
    counts = {}
    for rule in ("text", "recognise"):
        own = renderer(CHATML, special_text=rule)
        batch = rendered(own, row)
        assert (
            opened(CHATML).decode(batch.ids.tolist()).startswith("<|im_start|>user\na<|im_end|>b")
        )
        assert marked(own, row).endswith("[the answer<|im_end|>\n]")
        counts[rule] = batch.ids.tolist().count(end)
        assert batch.sizes[0, 1] == 1
    assert counts == {"text": 2, "recognise": 3}


def test_ids_of_normalized_text_have_the_positions_of_the_library():
    accented = {"role": "user", "content": "e\u0301e\u0301"}
    own = renderer(CHATML, normalized=True)
    text = marked(own, [accented, {"role": "assistant", "content": "e\u0301!"}], normalized=True)
    assert text == "<|im_start|>user\néé<|im_end|>\n<|im_start|>assistant\n[é!<|im_end|>\n]"


def test_rows_of_every_dialect_are_messages():
    rows = {
        "messages": {"messages": [USER, ANSWER]},
        "customjson": [USER, ANSWER],
        "sharegpt": {
            "conversations": [
                {"from": "human", "value": "the question"},
                {"from": "gpt", "value": "the answer"},
            ]
        },
        "gsm8k": {"question": "the question", "answer": "the answer"},
        "prompt-response": {"prompt": "the question", "completion": "the answer"},
        "alpaca": {"instruction": "the question", "input": "", "output": "the answer"},
    }
    assert set(rows) == set(CHAT_DIALECTS)
    expected = marked(renderer(CHATML), [USER, ANSWER])
    for dialect, row in rows.items():
        assert marked(renderer(CHATML, dialect=dialect), row) == expected


def test_turns_of_sharegpt_can_call_tools():
    call = {"name": "find", "arguments": {"place": "é", "n": 2}}
    turns = [
        {"from": "human", "value": "the question"},
        {"from": "function_call", "value": json.dumps(call)},
        {"from": "observation", "value": "21"},
        {"from": "gpt", "value": "the answer"},
    ]
    messages = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "21"},
        ANSWER,
    ]
    own = renderer(CHATML, dialect="sharegpt")
    assert marked(own, {"conversations": turns}) == marked(renderer(CHATML), messages)
    bad = rendered(own, {"conversations": [{"from": "function_call", "value": "find()"}]})
    assert "invalid JSON" in bad.problems[0]


def test_text_beside_the_messages_is_counted():
    row = {"messages": [USER], "tools": [{"name": "f"}], "id": "x", "note": "y", "empty": ""}
    for tools, expected in ((None, {"tools", "note"}), ("tools", {"note"})):
        batch = rendered(renderer(CHATML, tools=tools), row)
        assert {batch.unused_keys[key] for _, key, _ in batch.unused.tolist()} == expected


def test_a_template_for_training_must_give_the_same_text(tmp_path):
    own = opened(CHATML)
    path = tmp_path / "blocks.jinja"
    path.write_text(BLOCKS)
    settings = template_settings(own.model, training_template=str(path))
    assert settings is not None
    renders = own.template_renderer(settings, Dialect(kind="chat", name="messages"))
    rows = [[USER, ANSWER], [USER, {**ANSWER, "reasoning_content": "the thought"}]]
    same, other = (renders.plain(json.dumps(row).encode()) for row in rows)
    assert not same.problems
    assert "renders another text" in other.problems[0]
    path.write_text(CHATML)
    with pytest.raises(TemplateError, match="generation"):
        template_settings(own.model, training_template=str(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{% for", "line 1"),
        ("{{ cls_token }}{{ bos_token }}{{ strftime_now('%d') }}", "template_date"),
        ("{% include 'x' %}", "include"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_before_the_job(text, reason):
    with pytest.raises((TemplateError, SourceError), match=reason):
        renderer(text)


def test_the_date_of_a_template_is_that_of_the_recipe():
    own = renderer("{{ strftime_now('%d %b %Y') }}", date="2026-01-31", train_on="all")
    assert marked(own, [USER]) == "[31 Jan 2026]"


def test_a_template_without_an_end_takes_bounded_steps():
    own = renderer("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
    batch = own.render(Documents.from_bytes([json.dumps([USER]).encode()]))
    assert "refused by the chat template" in batch.problems[0]


texts = st.text(st.sampled_from("the an<|>[]é中 \n\u0301\x1cT{%}") | st.characters(), max_size=12)
contents = st.one_of(
    texts, st.none(), st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}))
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={
        "content": contents | texts,
        "reasoning_content": texts,
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {"function": st.fixed_dictionaries({"name": texts, "arguments": st.none() | texts})}
            ),
            max_size=2,
        ),
        "weight": st.integers() | st.floats(allow_nan=False),
    },
)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("rule", ["refuse", "text", "recognise"])
def test_the_core_renders_as_the_plain_implementation(name, rule):
    renders = [
        renderer(TEMPLATES[name], special_text=rule, **keys)
        for keys in ({}, {"train_on": "last", "untrained": ["reasoning_content"]})
    ]

    @given(rows=st.lists(st.lists(messages, max_size=5), max_size=3), which=st.booleans())
    def check(rows, which):
        rendered(renders[which], *rows)

    check()


CHATS = {dialect.name: lines for dialect, lines in ORDINARY.items()}


@pytest.mark.parametrize("dialect", CHATS)
@pytest.mark.parametrize("tools", [None, "tools"])
def test_rows_with_other_members_are_rendered_alike(dialect, tools):
    own = renderer(CHATML, dialect=dialect, tools=tools)
    described = st.fixed_dictionaries({}, optional={"tools": json_values, "note": json_values})

    @given(row=CHATS[dialect], others=st.builds(lambda a, b: a | b, described, extras))
    def check(row, others):
        rendered(own, {**others, **row} if isinstance(row, dict) else row)

    check()
