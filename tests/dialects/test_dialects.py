import pytest

from nanotok_ray.chat import segments_of
from nanotok_ray.dialects import value_of
from tests.support.dialect_documents import (
    CUSTOMJSON,
    GSM8K,
    MESSAGES,
    PAIR,
    PAIRS,
    SHAREGPT,
    answered,
    asked,
    assistant,
    call,
    called,
    document_of,
    output,
    spelled,
    user,
)

HI, YO = asked("hi"), answered("assistant 1 yo")

OK = asked("ok")
LONG = b'{"n": 1' + 5000 * b"0" + b', "x": NaN, "messages": [{"role":"user","content":"hi"}]}'
REPEATED = b' [{"role": "assistant", "role": "user", "content": "\\ud83d"}]\r'
TEXT_AND_CODE = [{"type": "text", "text": "yo"}, {"type": "python", "text": "1"}]
CODE_WITHOUT_OUTPUT = answered("assistant 1 yo", *called("1", "")[:3])
NOTHING_CALLED = [
    [user("hi", name="Ann"), assistant("yo", tool_calls=[], function_call=None)],
    [user("hi", tool_calls=[1], function_call=1), assistant("yo", tool_calls=None)],
]
EMPTY_CALL = [assistant([], tool_calls=[call("")]), output(""), assistant("")]
NOTHING_SAID = answered(*called("", ""), "assistant 1 ")
ONE_CALL = [assistant(None, tool_calls=[call("1")]), output("2"), assistant(None)]
SEVERAL_CALLS = [
    {"role": "system", "content": "s", "tool_calls": None, "tool_call_id": None},
    user("hi", tool_calls=None, tool_call_id=None),
    assistant("let me", tool_calls=[call("1", "x"), call("2", "y")]),
    *(output("3", "x"), output("4", "y")),
    {"role": "assistant", "tool_calls": [call("5", "x", index=0, type=None)]},
    output("", "x"),
    assistant([{"type": "text", "text": "so"}]),
    *(user("ok"), assistant("bye")),
]
CALLS_MADE = [*called("1", "3"), *called("2", "4"), *called("5", "")]
SEVERAL_ANSWERED = [
    *asked("s\n\nhi"),
    *answered("assistant 1 let me", *CALLS_MADE, "assistant 1 so"),
    *OK,
    *answered("assistant 1 bye"),
]
TURNS = [
    {"from": "system", "value": "s"},
    {"from": "user", "value": "hi", "weight": None},
    {"from": "assistant", "value": "yo"},
]

ACCEPTED = [
    (MESSAGES, PAIR, HI + YO),
    (MESSAGES, {"messages": PAIR, "id": 7, "tools": None}, HI + YO),
    *((MESSAGES, messages, HI + YO) for messages in NOTHING_CALLED),
    (MESSAGES, [user("<|bos|>")], asked("<|bos|>")),
    (MESSAGES, REPEATED, asked("\ud83d")),
    (MESSAGES, LONG, HI),
    (MESSAGES, [user("hi"), assistant(TEXT_AND_CODE)], HI + CODE_WITHOUT_OUTPUT),
    (MESSAGES, {"messages": SEVERAL_CALLS}, SEVERAL_ANSWERED),
    (MESSAGES, [user("hi"), *EMPTY_CALL, user("ok")], HI + NOTHING_SAID + OK),
    (MESSAGES, [user("hi"), *ONE_CALL], HI + answered(*called("1", "2"))),
    (CUSTOMJSON, PAIR, HI + YO),
    (CUSTOMJSON, [user("hi", x=1), assistant("yo", tool_calls=[1]), user("ok")], HI + YO + OK),
    (SHAREGPT, {"id": "7", "system": "", "conversations": TURNS}, asked("s\n\nhi") + YO),
    (GSM8K, {"question": "hi", "answer": "yo", "id": 7}, HI + YO),
    (PAIRS, {"prompt": "hi", "completion": "yo", "response": None, "system": None}, HI + YO),
    (PAIRS, {"prompt": "hi", "response": "yo", "completion": "no", "system": ""}, HI + YO),
]


@pytest.mark.parametrize(("dialect", "value", "expected"), ACCEPTED)
def test_a_document_consists_of_these_segments(dialect, value, expected):
    for kind in (bytes, bytearray):
        segments = segments_of(kind(document_of(value)), dialect)
        assert spelled(segments) == ["bos 0 [<|bos|>]", *expected]


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_of_more_than_18_digits_are_floats(sign):
    kept, longer = f"{sign}{'9' * 18}", f"{sign}{'9' * 19}"
    assert value_of(kept.encode()) == int(kept)
    assert isinstance(value_of(kept.encode()), int)
    assert isinstance(value_of(longer.encode()), float)
    assert value_of(f"{sign}{'9' * 5000}".encode()) == float(f"{sign}inf")
