"""Dialects: detection, messages, documents with images."""

import pytest

from nanotok_ray.chat import message_texts, segments_of
from nanotok_ray.dialects import columns_of, detect, detect_columns, value_of
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
    answered,
    asked,
    assistant,
    call,
    called,
    document_of,
    output,
    spelled,
    user,
    vision,
)
from tests.support.expected_text import expected_text, expected_trained_text

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
ALPACA_INPUT = asked("hi\n\na\n\nb") + answered("assistant 1 ")
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
    (ALPACA, {"instruction": "hi", "output": "yo"}, HI + YO),
    (ALPACA, {"instruction": "hi", "input": None, "output": "yo", "history": None}, HI + YO),
    (ALPACA, {"instruction": "hi", "input": "", "output": "yo", "system": ""}, HI + YO),
    (ALPACA, {"instruction": "", "input": "hi", "output": "yo", "history": []}, HI + YO),
    (ALPACA, {"instruction": "hi", "input": "a\n\nb", "output": ""}, ALPACA_INPUT),
    (
        *(ALPACA, {"instruction": "ok", "output": "yo", "system": "s", "history": [["hi", "yo"]]}),
        asked("s\n\nhi") + YO + OK + YO,
    ),
]


def pairs(**more):
    return vision("prompt-response", **{"image_token": "<|image|>", **more})


def image(count=1, token="<|image|>"):
    return f"image 0 [{token}]" + (f" x {count}" if count > 1 else "")


BEGIN, END = "user 0 [<|user_start|>]", "assistant 1 [<|assistant_end|>]"
DET = ("<|det|>", "<|grounding|>")
OCR = ["user 1 \nOCR", "assistant 1 A", END]
A_NUMBER = b'{"prompt": "<image>b", "response": "", "n": 1' + b"0" * 5000 + b"}"
TWO_IMAGES = {"text": "<image><image>a<|assistant_end|>", COUNTS: [2, 1]}
GROUNDED = {"prompt": "<image><|grounding|>b", "response": "<|det|>"}
SYSTEM_IMAGE = [{"role": "system", "content": "<image>s"}, user("b<image>")]
OUTPUT_IMAGE = [user("<image>"), assistant(None, tool_calls=[call("1")]), output("<image>")]

WITH_IMAGES = [
    (IMAGE_PAIRS, {"prompt": "<image>\nOCR", "response": "A", COUNTS: [3]}, [image(3), *OCR]),
    (IMAGE_PAIRS, {"text": "<image>\nOCR", "response": "A", "prompt": None}, [image(), *OCR]),
    (
        *(IMAGE_PAIRS, {"prompt": "<image>", "text": "x", "response": "", COUNTS: None}),
        [image(), END],
    ),
    (
        *(IMAGE_PAIRS, {"prompt": "a", "response": "<image>", COUNTS: []}),
        ["user 1 a", "assistant 1 <image>", END],
    ),
    (IMAGE_PAIRS, A_NUMBER, [image(), "user 1 b", END]),
    (pairs(image_tokens=4), {"prompt": "<image>", "response": ""}, [image(4), END]),
    (
        *(pairs(train_prompt=False), {"prompt": "<image>b", "response": "c"}),
        [image(), "user 0 b", "assistant 1 c", END],
    ),
    (
        *(pairs(grounding=DET), GROUNDED),
        [image(), "user 1 [<|grounding|>]", "user 1 b", "assistant 1 [<|det|>]", END],
    ),
    (
        *(pairs(image_token="<image>"), {"prompt": "<image><|image|>", "response": "c"}),
        [image(token="<image>"), "user 1 <|image|>", "assistant 1 c", END],
    ),
    (IMAGE_TEXT, TWO_IMAGES, [image(2), image(), "user 1 a", END]),
    (IMAGE_TEXT, {"text": "<image>a", "response": "not read"}, [image(), "user 1 a"]),
    (
        *(vision("text", image_token="<|image|>", grounding=DET), {"text": "<image><|det|>"}),
        [image(), "user 1 [<|det|>]"],
    ),
    (IMAGES, PAIR, HI + YO),
    (
        *(IMAGES, [user("a<image>b"), assistant("<image>")]),
        [BEGIN, "user 0 a", image(), *asked("b")[1:], *answered("assistant 1 <image>")],
    ),
    (
        *(IMAGES, {"messages": SYSTEM_IMAGE, COUNTS: [2, 5]}),
        [BEGIN, image(2), "user 0 s\n\nb", image(5), *asked()[1:]],
    ),
    (
        *(IMAGES, OUTPUT_IMAGE),
        [BEGIN, image(), *asked()[1:], *answered(*called("1", "<image>"))],
    ),
]


@pytest.mark.parametrize(("dialect", "value", "expected"), ACCEPTED + WITH_IMAGES)
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


CHAT = [
    ([], "messages"),
    ([{"role": "user", "content": "hi"}], "messages"),
    ({"messages": None}, "messages"),
    ({"prompt": "a", "completion": "b", "messages": []}, "messages"),
    ({"id": 1, "conversations": []}, "sharegpt"),
    ({"question": "a", "answer": "b"}, "gsm8k"),
    ({"prompt": "a", "response": "b"}, "prompt-response"),
    ({"prompt": "a", "completion": "b"}, "prompt-response"),
    ({"instruction": "a", "input": "", "output": "b"}, "alpaca"),
    ({"output": "b", "text": "c", "instruction": "a"}, "alpaca"),
    ({"instruction": "a", "response": "b"}, None),
    ({"question": "a", "response": "b"}, None),
    ({"text": "a", "response": "b"}, None),
    ({}, None),
    ("messages", None),
    (None, None),
    (3.0, None),
]
VISION = [
    ([], "messages"),
    ({"messages": [], "text": "a"}, "messages"),
    ({"prompt": "a", "response": "b"}, "prompt-response"),
    ({"text": "a", "response": "b"}, "prompt-response"),
    ({"text": "a", "image_token_counts": [1]}, "text"),
    ({"prompt": "a", "completion": "b"}, None),
    ({"conversations": []}, None),
    ({"question": "a", "answer": "b"}, None),
]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [(value, "chat", name) for value, name in CHAT]
    + [(value, "vision", name) for value, name in VISION],
    ids=str,
)
def test_a_document_is_recognized_by_its_keys(value, kind, expected):
    assert detect(value, kind=kind) == expected
    if isinstance(value, dict):
        assert detect_columns(list(reversed(value)), kind=kind) == expected


COLUMNS = [
    ("messages", "chat", "source messages system", "messages"),
    ("messages", "vision", "image_token_counts messages", "messages image_token_counts"),
    ("sharegpt", "chat", "system conversations", "conversations system"),
    ("gsm8k", "chat", "answer x question", "question answer"),
    ("prompt-response", "chat", "completion prompt", "prompt completion"),
    ("prompt-response", "chat", "completion response system prompt", "prompt response system"),
    ("alpaca", "chat", "output input id instruction", "instruction output input"),
    (
        *("alpaca", "chat", "history system instruction output"),
        "instruction output system history",
    ),
    (
        *("prompt-response", "vision", "response text system image_token_counts"),
        "text response image_token_counts",
    ),
    ("text", "vision", "text", "text"),
]


@pytest.mark.parametrize(("name", "kind", "available", "expected"), COLUMNS)
def test_a_dialect_reads_only_its_columns(name, kind, available, expected):
    found = columns_of(name, kind=kind, available=available.split())
    assert found == tuple(expected.split())
    assert detect_columns(found, kind=kind) == name


@pytest.mark.parametrize(
    ("name", "kind", "reported"),
    [
        ("gsm8k", "chat", r"'gsm8k' need the columns 'question', 'answer'.* it has 'a', 'b'"),
        ("prompt-response", "chat", r"columns 'prompt', 'response' or 'completion'"),
        ("prompt-response", "vision", r"columns 'prompt' or 'text', 'response', which"),
        ("customjson", "chat", r"'customjson' are JSON arrays.*use dialect = \"messages\""),
    ],
)
def test_missing_columns_are_named(name, kind, reported):
    with pytest.raises(SourceError, match=reported):
        columns_of(name, kind=kind, available=["a", "b"])


def test_an_image_is_expected_as_often_as_it_has_tokens():
    document = document_of({"prompt": "<image>b", "response": "c", COUNTS: [3]})
    assert (
        expected_text(document, IMAGE_PAIRS) == "<|bos|>" + "<|image|>" * 3 + "bc<|assistant_end|>"
    )
    assert expected_trained_text(document, IMAGE_PAIRS) == "bc<|assistant_end|>"
    assert message_texts(document, IMAGE_PAIRS) == ["b", "c"]
