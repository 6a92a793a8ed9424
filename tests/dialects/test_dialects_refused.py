import sys

import pytest

from nanotok_ray.chat import conversation_of, segments_of
from nanotok_ray.dialects import CHAT_DIALECTS, MALFORMED, VISION_DIALECTS, Dialect, reason_of
from nanotok_ray.errors import SourceError
from tests.support.dialect_documents import (
    CUSTOMJSON,
    GSM8K,
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
    user,
)

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
ONLY = "; only python, with the one argument code, maps onto <|python_start|>"
BESIDE = "; beside tool calls it may be a string, an array of parts or null"
KNOWN = "; known are system, human, user, gpt, assistant"
NOT_UNDERSTOOD = "tool call not understood: "


NO_INDEX = "string indices must be integers" + (
    ", not 'str'" if sys.version_info >= (3, 11) else ""
)
BAD_PARTS = [
    ({"type": ["text"], "text": "x"}, "Unknown part type: ['text']"),
    ({"type": "text", "text": None}, "Invalid input type: <class 'NoneType'>"),
    ({"type": "nonsense", "text": ["x"]}, "Invalid input type: <class 'list'>"),
]


def with_call(*calls):
    return [user("hi"), assistant(None, tool_calls=list(calls)), output("2")]


REFUSED = [
    (MESSAGES, "hello", SHAPE + "a string"),
    (MESSAGES, None, SHAPE + "null"),
    (MESSAGES, True, SHAPE + "a boolean"),
    (MESSAGES, 1.5, SHAPE + "a number"),
    (MESSAGES, b"9" * 5000, SHAPE + "a number"),
    (MESSAGES, b"-" + b"9" * 20, SHAPE + "a number"),
    (MESSAGES, {"text": "x", "id": 1}, SHAPE + "an object with the keys 'text', 'id'"),
    (MESSAGES, {"x" * 90: 1}, SHAPE + f"an object with the keys '{'x' * 40}'"),
    (MESSAGES, {"messages": "x"}, SHAPE + "'messages' that is a string"),
    (MESSAGES, {"messages": None}, SHAPE + "'messages' that is null"),
    (MESSAGES, {}, SHAPE + "an object with the keys (none)"),
    (MESSAGES, [], "the conversation has no messages"),
    (MESSAGES, {"messages": []}, "the conversation has no messages"),
    (MESSAGES, [user("a"), "x"], "message 1 is a string, not an object"),
    (MESSAGES, [[1]], "message 0 is an array, not an object"),
    (MESSAGES, [{"content": "a"}], "message 0 has no 'role'"),
    (MESSAGES, [{"role": "user"}], "message 0 has no 'content'"),
    (MESSAGES, [user("a"), user("b")], "Message 1 is from user but should be from assistant"),
    (MESSAGES, [assistant("a")], "Message 0 is from assistant but should be from user"),
    (MESSAGES, [*PAIR, output("x")], "Message 2 is from tool but should be from user"),
    (
        MESSAGES,
        [user("a"), {"role": "function", "content": "x"}],
        "Message 1 is from function but should be from assistant",
    ),
    (MESSAGES, [user("a"), assistant(None)], "Unknown content type: <class 'NoneType'>"),
    (
        MESSAGES,
        [user("a"), assistant([{"type": "image", "text": "x"}])],
        "Unknown part type: image",
    ),
    (MESSAGES, [user("a"), assistant([{"text": "x"}])], "KeyError: 'type'"),
    (MESSAGES, [user("a"), assistant([{"type": "text"}])], "KeyError: 'text'"),
    (MESSAGES, [user("a"), assistant(["x"])], f"TypeError: {NO_INDEX}"),
    *((MESSAGES, [user("a"), assistant([part])], reason) for part, reason in BAD_PARTS),
    (MESSAGES, [user(["a"])], "User messages are simply expected to be strings"),
    (MESSAGES, [{"role": "system", "content": "s"}], "IndexError: list index out of range"),
    (
        MESSAGES,
        [{"role": "system", "content": None}, user("a")],
        "TypeError: unsupported operand type(s) for +: 'NoneType' and 'str'",
    ),
    (
        MESSAGES,
        [user("a"), assistant("x", function_call={"name": "f"})],
        "function_call is not understood: use tool_calls, in message 1",
    ),
    (
        MESSAGES,
        [user("a"), assistant("x", tool_calls={})],
        "tool_calls is not an array: an object with the keys (none) in message 1",
    ),
    (
        MESSAGES,
        with_call(call_of("get_weather")),
        NOT_UNDERSTOOD + "'a' is of 'get_weather'" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of("g" * 300)),
        NOT_UNDERSTOOD + f"'a' is of '{'g' * 200}'..." + ONLY,
    ),
    (MESSAGES, with_call(call_of(None)), NOT_UNDERSTOOD + "'a' is of null" + ONLY),
    (MESSAGES, with_call(7), NOT_UNDERSTOOD + "it has no id that is a string" + ONLY),
    (MESSAGES, with_call({"id": 7}), NOT_UNDERSTOOD + "it has no id that is a string" + ONLY),
    (MESSAGES, with_call({"id": "a"}), NOT_UNDERSTOOD + "'a' has null as its function" + ONLY),
    (
        MESSAGES,
        with_call(call("1", type="custom")),
        NOT_UNDERSTOOD + "'a' is of type 'custom'" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments="1+1")),
        NOT_UNDERSTOOD + "'a' has arguments that are invalid JSON: Extra data (char 1)" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments="[" * 100_000)),
        NOT_UNDERSTOOD + "'a' has arguments that are invalid JSON: nested too deeply" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments='"x"')),
        NOT_UNDERSTOOD + "'a' has a string as its arguments" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments=None)),
        NOT_UNDERSTOOD + "'a' has null as its arguments" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments={})),
        NOT_UNDERSTOOD + "'a' has as its arguments an object with the keys (none)" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments={"code": "1", "x": None})),
        NOT_UNDERSTOOD + "'a' has as its arguments an object with the keys 'code', 'x'" + ONLY,
    ),
    (
        MESSAGES,
        with_call(call_of(arguments={"code": 1})),
        NOT_UNDERSTOOD + "'a' has a number as its code" + ONLY,
    ),
    (
        MESSAGES,
        [user("a"), assistant(None, tool_calls=[call("1")])],
        "tool call has no answer: 'a' is followed by no message",
    ),
    (
        MESSAGES,
        [user("a"), assistant("x", tool_calls=[call("1")]), user("b")],
        "tool call has no answer: 'a' is followed by message 2, which is from 'user'",
    ),
    (
        MESSAGES,
        [
            user("a"),
            assistant("x", tool_calls=[call("1", "x"), call("1", "y")]),
            output("1", "y"),
            output("1", "x"),
        ],
        "tool call has no answer: message 2 answers 'y', but the next call is 'x'",
    ),
    (
        MESSAGES,
        [user("a"), assistant("x", tool_calls=[call("1")]), {"role": "tool", "content": "2"}],
        "tool call has no answer: message 2 answers null, but the next call is 'a'",
    ),
    (MESSAGES, [*with_call(call("1")), output("2")], "tool message answers no call: message 3"),
    (
        MESSAGES,
        [
            user("a"),
            assistant("x", tool_calls=[call("1")]),
            output([{"type": "text", "text": "2"}]),
        ],
        "tool answer is not a string: an array, for 'a' in message 2",
    ),
    (
        MESSAGES,
        [user("a"), assistant("x", tool_calls=[call("1")]), output(None)],
        "tool answer is not a string: null, for 'a' in message 2",
    ),
    (
        MESSAGES,
        [user("a"), assistant(7, tool_calls=[call("1")]), output("1")],
        "content is not understood: a number in message 1" + BESIDE,
    ),
    (
        MESSAGES,
        [*with_call(call("1")), assistant("x", function_call={})],
        "function_call is not understood: use tool_calls, in message 3",
    ),
    (
        MESSAGES,
        [*with_call(call("1")), assistant("x"), assistant("y")],
        "Message 2 is from assistant but should be from user",
    ),
    (MESSAGES, [*with_call(call("1")), {"role": "user"}], "message 2 has no 'content'"),
    (
        MESSAGES,
        [assistant(None, tool_calls=[call("1")]), output("2")],
        "Message 0 is from assistant but should be from user",
    ),
    (CUSTOMJSON, {"messages": PAIR}, "Expected list of messages, got <class 'dict'>"),
    (CUSTOMJSON, [user("a"), "role content"], "message 1 is a string, not an object"),
    (CUSTOMJSON, [user("a"), output("b")], "Message 1 has role tool but should be assistant"),
    (
        CUSTOMJSON,
        [user("a"), assistant(None, tool_calls=[call("1")])],
        "Message 1 content must be a string",
    ),
    (SHAREGPT, PAIR, "not an object: an array"),
    (SHAREGPT, {"messages": PAIR}, "field is missing: 'conversations'"),
    (SHAREGPT, {"conversations": None}, "field is null: 'conversations'"),
    (SHAREGPT, {"conversations": "x"}, "field is not an array: 'conversations' is a string"),
    (SHAREGPT, {"conversations": []}, "the conversation has no turns"),
    (SHAREGPT, {"conversations": [7]}, "turn is not an object: turn 0 is a number"),
    (
        SHAREGPT,
        {"conversations": [{"value": "a"}]},
        "turn has no string 'from': in turn 0 it is null",
    ),
    (
        SHAREGPT,
        {"conversations": [{"from": "gpt", "value": ["a"]}]},
        "turn has no string 'value': in turn 0 it is an array",
    ),
    (
        SHAREGPT,
        {"conversations": [{"from": "tool", "value": "a"}]},
        "unknown speaker: 'tool' in turn 0" + KNOWN,
    ),
    (
        SHAREGPT,
        {"conversations": [{"from": "x" * 999, "value": "a"}]},
        f"unknown speaker: '{'x' * 200}'... in turn 0" + KNOWN,
    ),
    (
        SHAREGPT,
        {"system": "s", "conversations": [{"from": "system", "value": "a"}]},
        "two system messages: the field 'system' and a turn of 'system'",
    ),
    (
        SHAREGPT,
        {"system": 7, "conversations": [{"from": "human", "value": "a"}]},
        "field is not a string: 'system' is a number",
    ),
    (
        SHAREGPT,
        {"conversations": [{"from": "gpt", "value": "a"}]},
        "Message 0 is from assistant but should be from user",
    ),
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
    (
        PAIRS,
        {"prompt": "a", "response": "b", "system": ["s"]},
        "field is not a string: 'system' is an array",
    ),
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


def test_a_nesting_error_has_a_reason():
    assert isinstance(RecursionError(), MALFORMED)
    reason = reason_of(RecursionError("maximum recursion depth exceeded"))
    assert reason == "nested too deeply: a value where a string belongs"


@pytest.mark.parametrize("dialect", [chat_dialect("x"), Dialect(kind="text", name="messages")])
def test_an_unknown_dialect_is_refused_by_name(dialect):
    with pytest.raises(ValueError, match=f"'{dialect.name}' of kind '{dialect.kind}'") as caught:
        segments_of(b"[]", dialect)
    assert "sharegpt of kind chat" in str(caught.value)


@pytest.mark.parametrize("name", VISION_DIALECTS)
def test_only_messages_with_images_are_conversations(name):
    dialect = Dialect(kind="vision", name=name, image_token="<image>")
    document = document_of(PAIR)
    if name == "messages":
        assert conversation_of(document, dialect) == {"messages": PAIR}
    else:
        with pytest.raises(ValueError, match="has no conversations"):
            conversation_of(document, dialect)
