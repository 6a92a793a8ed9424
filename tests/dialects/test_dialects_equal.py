"""The core equals the reference implementation on every dialect, and refuses the same."""

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.chat import (
    conversation_of,
    layout,
    message_texts,
    segments_of,
)
from nanotok_ray.dialects import (
    CHAT_DIALECTS,
    MALFORMED,
    VISION_DIALECTS,
    Dialect,
    parts_of,
    reason_of,
)
from nanotok_ray.errors import SourceError
from tests.support.dialect_documents import (
    ALPACA,
    COUNTS,
    CUSTOMJSON,
    GSM8K,
    IMAGE_PAIRS,
    IMAGE_TEXT,
    IMAGES,
    MESSAGES,
    PAIR,
    PAIRS,
    SHAREGPT,
    assistant,
    call,
    call_of,
    chat_dialect,
    document_of,
    output,
    parts,
    talks,
    texts,
    user,
    vision,
)
from tests.support.expected_text import expected_text, expected_trained_text


@given(talks(texts | parts))
def test_messages_without_tools_equal_the_chat_layout(messages):
    document = document_of(messages)
    expected = list(layout({"messages": messages}))
    assert segments_of(document, MESSAGES) == expected
    assert segments_of(document_of({"messages": messages, "x": None}), MESSAGES) == expected
    assert conversation_of(document, MESSAGES) == {"messages": messages}
    texts_of = [each.text for each in expected if not each.is_special]
    assert message_texts(document, MESSAGES) == texts_of
    assert expected_text(document, MESSAGES) == "".join(each.text for each in expected)
    trained = "".join(each.text for each in expected if each.mask)
    assert expected_trained_text(document, MESSAGES) == trained


@given(talks(), st.booleans(), st.sampled_from(["human", "user"]), st.booleans())
def test_a_sharegpt_document_equals_its_conversation(messages, beside, speaker, is_gpt):
    names = {"user": speaker, "assistant": "gpt" if is_gpt else "assistant", "system": "system"}
    turns = [{"from": names[each["role"]], "value": each["content"]} for each in messages]
    document = {"conversations": turns}
    # An empty field is not a system message, an empty turn is one.
    if beside and turns[0]["from"] == "system" and turns[0]["value"]:
        document = {"conversations": turns[1:], "system": turns[0]["value"]}
    expected = list(layout({"messages": messages}))
    assert segments_of(document_of(document), SHAREGPT) == expected


@given(texts, texts, texts | st.none(), st.sampled_from(["response", "completion"]))
def test_a_pair_equals_its_conversation(prompt, response, system, name):
    document = document_of({"prompt": prompt, name: response, "system": system})
    expected = [{"role": "system", "content": system}] if system else []
    expected += [user(prompt), assistant(response)]
    assert conversation_of(document, PAIRS) == {"messages": expected}


@given(texts, texts | st.none(), texts, st.lists(st.tuples(texts, texts), max_size=2))
def test_an_alpaca_row_equals_its_conversation(instruction, entered, answer, history):
    values = {"instruction": instruction, "input": entered, "output": answer, "history": history}
    asked = f"{instruction}\n\n{entered}" if instruction and entered else instruction or entered
    expected = [message for q, a in history for message in (user(q), assistant(a))]
    expected += [user(asked or ""), assistant(answer)]
    assert conversation_of(document_of(values), ALPACA) == {"messages": expected}


@given(st.text(alphabet="<>=1a", max_size=30))
def test_answers_of_gsm8k_are_cut_by_the_pattern_of_upstream(answer):
    expected = []
    for piece in re.split(r"(<<[^>]+>>)", answer):
        if piece.startswith("<<") and piece.endswith(">>"):
            expression, *result = piece[2:-2].rsplit("=", 1)
            expected.append({"type": "python", "text": expression})
            expected.append({"type": "python_output", "text": "".join(result)})
        else:
            expected.append({"type": "text", "text": piece})
    assert parts_of(answer) == expected


def test_answers_of_gsm8k_are_cut_in_linear_time():
    hostile = "<" * 1_000_000  # nanochat's pattern scans the rest of it a million times
    assert parts_of(hostile) == [{"type": "text", "text": hostile}]
    call = {"type": "python", "text": hostile[2:]}
    assert parts_of(hostile + ">>")[1:2] == [call]


turns_with_calls = st.lists(
    st.tuples(texts, st.lists(st.tuples(texts, texts), min_size=1, max_size=3)),
    min_size=1,
    max_size=3,
)


def as_openai(turns, last, *, as_object):
    """Return one turn of the assistant, with its calls, as messages of OpenAI's format."""
    messages = []
    for number, (text, calls) in enumerate(turns):
        own = [call(code, f"c{number}.{place}") for place, (code, _) in enumerate(calls)]
        if as_object:
            for each in own:
                each["function"]["arguments"] = json.loads(each["function"]["arguments"])
        messages.append(assistant(text or None, tool_calls=own))
        messages += [output(out, f"c{number}.{place}") for place, (_, out) in enumerate(calls)]
    return messages if last is None else [*messages, assistant(last)]


def as_parts(turns, last):
    found = []
    for text, calls in turns:
        found += [{"type": "text", "text": text}] if text else []
        for code, out in calls:
            found.append({"type": "python", "text": code})
            found.append({"type": "python_output", "text": out})
    return found if last is None else [*found, {"type": "text", "text": last}]


@given(st.lists(turns_with_calls, min_size=1, max_size=2), st.none() | texts, st.booleans())
def test_tool_calls_equal_their_parts(rounds, last, as_object):
    openai, plain = [], []
    for turns in rounds:
        openai += [user("q"), *as_openai(turns, last, as_object=as_object)]
        plain += [user("q"), assistant(as_parts(turns, last))]
    given_back = segments_of(document_of({"messages": openai}), MESSAGES)
    assert given_back == list(layout({"messages": plain}))


NOT_JSON = [
    (b"", "invalid JSON: Expecting value (char 0)"),
    (b"not json", "invalid JSON: Expecting value (char 0)"),
    (b'["a" "b"]', "invalid JSON: Expecting ',' delimiter (char 5)"),
    ('["é",'.encode(), "invalid JSON: Expecting value (char 5)"),
    (b"[1] 2", "invalid JSON: Extra data (char 4)"),
    (b'\xef\xbb\xbf["a"]', "invalid JSON: Expecting value (char 0)"),
    (b'["\xff"]', "invalid UTF-8: at byte 2"),
    (b'["\xed\xa0\x80"]', "invalid UTF-8: at byte 2"),
    (b"[" * 100_000, "invalid JSON: nested too deeply"),
]


@pytest.mark.parametrize("dialect", [chat_dialect(name) for name in CHAT_DIALECTS], ids=str)
@pytest.mark.parametrize(("document", "reason"), NOT_JSON, ids=lambda value: str(value)[:40])
def test_invalid_json_is_refused_in_every_dialect(document, reason, dialect):
    with pytest.raises(SourceError) as caught:
        segments_of(document, dialect)
    assert reason_of(caught.value) == reason


SHAPE = "expected an array of messages or an object with the array as 'messages', got "
KNOWN = "; known are system, human, user, gpt, assistant"
NOT_UNDERSTOOD = "tool call not understood: "
ONLY = (
    "; only python, with the one argument code, maps onto <|python_start|>; other calls need a "
    "chat template: that of tokenizer.path, or source.template"
)
BESIDE = "; beside tool calls it may be a string, an array of parts or null"
NO_ANSWER = "tool call has no answer: "
NO_INDEX = "string indices must be integers" + (
    ", not 'str'" if sys.version_info >= (3, 11) else ""
)
NOT_ADDED = "TypeError: unsupported operand type(s) for +: 'NoneType' and 'str'"


def with_call(*calls):
    return [user("hi"), assistant(None, tool_calls=list(calls)), output("2")]


def said(speaker, value="a", **more):
    return {"conversations": [{"from": speaker, "value": value}], **more}


def row(**more):
    return {"instruction": "a", "output": "b", **more}


NOT_PAIRS = "history is not pairs of strings: pair 1 is not one"
WRONG_MESSAGES = [
    ("hello", SHAPE + "a string"),
    (None, SHAPE + "null"),
    (True, SHAPE + "a boolean"),
    (1.5, SHAPE + "a number"),
    (b"9" * 5000, SHAPE + "a number"),
    (b"-" + b"9" * 20, SHAPE + "a number"),
    ({"text": "x", "id": 1}, SHAPE + "an object with the keys 'text', 'id'"),
    ({"x" * 90: 1}, SHAPE + f"an object with the keys '{'x' * 40}'"),
    ({"messages": "x"}, SHAPE + "'messages' that is a string"),
    ({"messages": None}, SHAPE + "'messages' that is null"),
    ({}, SHAPE + "an object with the keys (none)"),
    ([], "the conversation has no messages"),
    ({"messages": []}, "the conversation has no messages"),
    ([user("a"), "x"], "message 1 is a string, not an object"),
    ([[1]], "message 0 is an array, not an object"),
    ([{"content": "a"}], "message 0 has no 'role'"),
    ([{"role": "user"}], "message 0 has no 'content'"),
    ([user("a"), user("b")], "Message 1 is from user but should be from assistant"),
    ([assistant("a")], "Message 0 is from assistant but should be from user"),
    (with_call(call("1"))[1:], "Message 0 is from assistant but should be from user"),
    ([*PAIR, output("x")], "Message 2 is from tool but should be from user"),
    ([user(["a"])], "User messages are simply expected to be strings"),
    ([{"role": "system", "content": "s"}], "IndexError: list index out of range"),
    ([{"role": "system", "content": None}, user("a")], NOT_ADDED),
]
WRONG_CONTENTS = [
    (None, "Unknown content type: <class 'NoneType'>"),
    ([{"type": "image", "text": "x"}], "Unknown part type: image"),
    ([{"text": "x"}], "KeyError: 'type'"),
    ([{"type": "text"}], "KeyError: 'text'"),
    (["x"], f"TypeError: {NO_INDEX}"),
    ([{"type": ["text"], "text": "x"}], "Unknown part type: ['text']"),
    ([{"type": "text", "text": None}], "Invalid input type: <class 'NoneType'>"),
    ([{"type": "nonsense", "text": ["x"]}], "Invalid input type: <class 'list'>"),
]
WRONG_CALLS = [
    (call_of("get_weather"), "'a' is of 'get_weather'"),
    (call_of("g" * 300), f"'a' is of '{'g' * 200}'..."),
    (call_of(None), "'a' is of null"),
    (7, "it has no id that is a string"),
    ({"id": 7}, "it has no id that is a string"),
    ({"id": "a"}, "'a' has null as its function"),
    (call("1", type="custom"), "'a' is of type 'custom'"),
    (call_of(arguments="1+1"), "'a' has arguments that are invalid JSON: Extra data (char 1)"),
    (call_of(arguments="[" * 10**5), "'a' has arguments that are invalid JSON: nested too deeply"),
    (call_of(arguments='"x"'), "'a' has a string as its arguments"),
    (call_of(arguments=None), "'a' has null as its arguments"),
    (call_of(arguments={}), "'a' has as its arguments an object with the keys (none)"),
    (
        call_of(arguments={"code": "1", "x": None}),
        "'a' has as its arguments an object with the keys 'code', 'x'",
    ),
    (call_of(arguments={"code": 1}), "'a' has a number as its code"),
]
ONE_CALL = assistant("x", tool_calls=[call("1")])
TWO_CALLS = assistant("x", tool_calls=[call("1", "x"), call("1", "y")])
WRONG_TURNS = [  # the messages after one of the user
    (
        [{"role": "function", "content": "x"}],
        "Message 1 is from function but should be from assistant",
    ),
    (
        [assistant("x", function_call={"name": "f"})],
        "function_call is not understood: use tool_calls, in message 1",
    ),
    (
        [assistant("x", tool_calls={})],
        "tool_calls is not an array: an object with the keys (none) in message 1",
    ),
    ([ONE_CALL], NO_ANSWER + "'a' is followed by no message"),
    ([ONE_CALL, user("b")], NO_ANSWER + "'a' is followed by message 2, which is from 'user'"),
    (
        [TWO_CALLS, output("1", "y"), output("1", "x")],
        NO_ANSWER + "message 2 answers 'y', but the next call is 'x'",
    ),
    (
        [ONE_CALL, {"role": "tool", "content": "2"}],
        NO_ANSWER + "message 2 answers null, but the next call is 'a'",
    ),
    ([ONE_CALL, output("2"), output("2")], "tool message answers no call: message 3"),
    (
        [ONE_CALL, output([{"type": "text", "text": "2"}])],
        "tool answer is not a string: an array, for 'a' in message 2",
    ),
    ([ONE_CALL, output(None)], "tool answer is not a string: null, for 'a' in message 2"),
    (
        [assistant(7, tool_calls=[call("1")]), output("1")],
        "content is not understood: a number in message 1" + BESIDE,
    ),
    (
        [ONE_CALL, output("2"), assistant("x", function_call={})],
        "function_call is not understood: use tool_calls, in message 3",
    ),
    (
        [ONE_CALL, output("2"), assistant("x"), assistant("y")],
        "Message 2 is from assistant but should be from user",
    ),
    ([ONE_CALL, output("2"), {"role": "user"}], "message 2 has no 'content'"),
]
ONE = {"prompt": "<image>", "response": ""}
REFUSED = [
    *((MESSAGES, value, reason) for value, reason in WRONG_MESSAGES),
    *((MESSAGES, [user("a"), assistant(own)], reason) for own, reason in WRONG_CONTENTS),
    *((MESSAGES, with_call(own), NOT_UNDERSTOOD + reason + ONLY) for own, reason in WRONG_CALLS),
    *((MESSAGES, [user("a"), *others], reason) for others, reason in WRONG_TURNS),
    (CUSTOMJSON, {"messages": PAIR}, "Expected list of messages, got <class 'dict'>"),
    (CUSTOMJSON, [user("a"), "role content"], "message 1 is a string, not an object"),
    (CUSTOMJSON, [user("a"), output("b")], "Message 1 has role tool but should be assistant"),
    (CUSTOMJSON, with_call(call("1")), "Message 1 content must be a string"),
    (SHAREGPT, PAIR, "not an object: an array"),
    (SHAREGPT, {"messages": PAIR}, "field is missing: 'conversations'"),
    (SHAREGPT, {"conversations": None}, "field is null: 'conversations'"),
    (SHAREGPT, {"conversations": "x"}, "field is not an array: 'conversations' is a string"),
    (SHAREGPT, {"conversations": []}, "the conversation has no turns"),
    (SHAREGPT, {"conversations": [7]}, "turn is not an object: turn 0 is a number"),
    (SHAREGPT, said(None), "turn has no string 'from': in turn 0 it is null"),
    (SHAREGPT, said("gpt", ["a"]), "turn has no string 'value': in turn 0 it is an array"),
    (SHAREGPT, said("tool"), "unknown speaker: 'tool' in turn 0" + KNOWN),
    (SHAREGPT, said("x" * 999), f"unknown speaker: '{'x' * 200}'... in turn 0" + KNOWN),
    (
        SHAREGPT,
        said("system", system="s"),
        "two system messages: the field 'system' and a turn of 'system'",
    ),
    (SHAREGPT, said("human", system=7), "field is not a string: 'system' is a number"),
    (SHAREGPT, said("gpt"), "Message 0 is from assistant but should be from user"),
    (GSM8K, "x", "not an object: a string"),
    (GSM8K, {"question": "a"}, "field is missing: 'answer'"),
    (GSM8K, {"question": None, "answer": "b"}, "field is null: 'question'"),
    (GSM8K, {"question": "a", "answer": 4}, "field is not a string: 'answer' is a number"),
    (PAIRS, [1], "not an object: an array"),
    (PAIRS, {"response": "a"}, "field is missing: 'prompt'"),
    (PAIRS, {"prompt": "a"}, "field is missing: 'response' or 'completion'"),
    (PAIRS, {"prompt": "a", "completion": None}, "field is null: 'completion'"),
    (
        PAIRS,
        {"prompt": "a", "response": 1, "completion": "b"},
        "field is not a string: 'response' is a number",
    ),
    (PAIRS, {**ONE, "system": ["s"]}, "field is not a string: 'system' is an array"),
    (ALPACA, PAIR, "not an object: an array"),
    (ALPACA, {"output": "a"}, "field is missing: 'instruction'"),
    (ALPACA, {"instruction": "a"}, "field is missing: 'output'"),
    (ALPACA, row(instruction=None), "field is null: 'instruction'"),
    (ALPACA, row(output=None), "field is null: 'output'"),
    (ALPACA, row(output=["a", "b"]), "field is not a string: 'output' is an array"),
    (ALPACA, row(input=7), "field is not a string: 'input' is a number"),
    (ALPACA, row(system=[]), "field is not a string: 'system' is an array"),
    (ALPACA, row(history="a"), "field is not an array: 'history' is a string"),
    *(
        (ALPACA, row(history=[["a", "b"], own]), NOT_PAIRS)
        for own in ("ab", [], ["a"], ["a", None], ["a", "b", "c"], {"a": "b"})
    ),
    (IMAGE_PAIRS, [ONE], "not an object: an array"),
    (IMAGE_PAIRS, {"response": ""}, "field is missing: 'prompt' or 'text'"),
    (
        IMAGE_PAIRS,
        {"prompt": 7, "text": "a", "response": ""},
        "field is not a string: 'prompt' is a number",
    ),
    (IMAGE_PAIRS, {"prompt": "a", "completion": "b"}, "field is missing: 'response'"),
    (IMAGE_PAIRS, {"prompt": "a", "response": None}, "field is null: 'response'"),
    *(
        (IMAGE_PAIRS, ONE | {COUNTS: own}, f"1 <image> placeholders but {len(own)} {COUNTS}")
        for own in ([1, 2], [])
    ),
    *(
        (IMAGE_PAIRS, ONE | {COUNTS: [own]}, f"image token count must be an int >= 1, got {own}")
        for own in (0, True, 2.0)
    ),
    (
        IMAGE_PAIRS,
        b'{"prompt": "<image>", "response": "", "image_token_counts": [1000000000000000000000]}',
        "image token count must be an int >= 1, got 1e+21",
    ),
    (IMAGE_TEXT, {"prompt": "a", "response": "b"}, "field is missing: 'text'"),
    (IMAGE_TEXT, {"text": ["a"]}, "field is not a string: 'text' is an array"),
    (IMAGE_TEXT, {"text": "a", COUNTS: [1]}, "0 <image> placeholders but 1 image_token_counts"),
    (IMAGES, {"messages": PAIR, COUNTS: [1]}, "0 <image> placeholders but 1 image_token_counts"),
    (IMAGES, {"text": "a"}, SHAPE + "an object with the keys 'text'"),
    (IMAGES, [assistant("a")], "Message 0 is from assistant but should be from user"),
    (IMAGES, [user(["<image>"])], "User messages are simply expected to be strings"),
]


@pytest.mark.parametrize(("dialect", "value", "reason"), REFUSED)
def test_a_document_is_refused_with_this_reason(dialect, value, reason):
    with pytest.raises(MALFORMED) as caught:
        segments_of(document_of(value), dialect)
    assert reason_of(caught.value) == reason


def test_document_text_in_a_reason_is_one_printable_line():
    document = rb'[{"role": "\ud800\u001b[31m\n\u00e9", "content": "a"}]'
    with pytest.raises(AssertionError) as caught:
        segments_of(document, MESSAGES)
    reason = reason_of(caught.value)
    assert reason == "Message 0 is from \\ud800\\x1b[31m\\n\u00e9 but should be from user"


def test_a_long_reason_is_cut_in_its_middle():
    for length in (200, 201, 240):
        assert reason_of(ValueError("x" * length)) == "x" * length
    assert reason_of(ValueError("x" * 200 + "y" * 41)) == f"{'x' * 200}...{'y' * 40}"


@pytest.mark.parametrize("place", ["role", "type"])
def test_a_deeply_nested_value_is_malformed_and_does_not_crash(place):
    quoted = {
        "role": '[{"role": DEEP, "content": "a"}]',
        "type": '[{"role":"user","content":"a"},'
        '{"role":"assistant","content":[{"text":"b","type":DEEP}]}]',
    }[place]
    reasons = set()
    for depth in range(0, sys.getrecursionlimit(), 3):
        document = quoted.replace("DEEP", "[" * depth + "]" * depth).encode()
        with pytest.raises(MALFORMED) as caught:
            segments_of(document, MESSAGES)
        reasons.add(reason_of(caught.value).partition("[")[0].partition(":")[0])
    expected = {"role": "Message 0 is from ", "type": "Unknown part type"}[place]
    assert reasons - {"nested too deeply"} == {expected, "invalid JSON"}
    reason = reason_of(RecursionError("maximum recursion depth exceeded"))
    assert reason == "nested too deeply: a value where a string belongs"


@pytest.mark.parametrize(
    "dialect", [IMAGES, IMAGE_PAIRS, IMAGE_TEXT], ids=lambda dialect: dialect.name
)
def test_counts_that_are_not_a_list_are_refused_without_repeating_them(dialect):
    value = {"messages": PAIR, "prompt": "<image>", "text": "<image>", "response": ""}
    document = document_of({**value, COUNTS: {"x" * 1000: "y" * 1000}})
    with pytest.raises(TypeError) as caught:
        segments_of(document, dialect)
    assert "image_token_counts must be a list of ints" in reason_of(caught.value)
    assert len(reason_of(caught.value)) < 300


@pytest.mark.parametrize("name", VISION_DIALECTS)
def test_a_dialect_without_image_token_lists_those_that_exist(name):
    with pytest.raises(ValueError, match="no image token") as caught:
        segments_of(b"{}", vision(name))
    assert "'<image>' (preset seed)" in str(caught.value)
    assert "'<|image|>' (preset nano-deepseek-ocr)" in str(caught.value)


@pytest.mark.parametrize("dialect", [chat_dialect("x"), Dialect(kind="text", name="messages")])
def test_an_unknown_dialect_is_refused_by_name(dialect):
    with pytest.raises(ValueError, match=f"'{dialect.name}' of kind '{dialect.kind}'") as caught:
        segments_of(b"[]", dialect)
    assert "sharegpt of kind chat" in str(caught.value)
    with pytest.raises(ValueError, match="'gsm8k'; known are messages, prompt-response, text"):
        segments_of(b"{}", vision("gsm8k", image_token="<|image|>"))


@pytest.mark.parametrize(
    "dialect", [IMAGES, IMAGE_PAIRS, IMAGE_TEXT], ids=lambda dialect: dialect.name
)
def test_only_messages_with_images_are_conversations(dialect):
    if dialect is IMAGES:
        assert conversation_of(document_of(PAIR), dialect) == {"messages": PAIR}
    else:
        with pytest.raises(ValueError, match="has no conversations"):
            conversation_of(document_of(PAIR), dialect)
