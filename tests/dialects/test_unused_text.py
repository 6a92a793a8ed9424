"""Text that a dialect does not render, by key."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nanotok_ray.dialects import METADATA, holds_text, unused_text, value_of
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
    output,
    user,
)

THOUGHT = [user("hi", name="Ann"), assistant("yo", reasoning_content="hm", thinking="")]
PARTS = [{"type": "text", "text": "a", "annotations": [{"title": "t"}], "index": 1}]
CALLED = [
    user("hi", tool_calls=["not rendered"], tool_call_id="a"),
    assistant(None, tool_calls=[call("1", note="n", index=0)], reasoning="r"),
    output("2") | {"name": "python"},
    assistant("so", reasoning="r", weight=1),
]
TURN = {"from": "human", "value": "hi", "tag": "t", "weight": None}
BESIDE = {"id": "7", "prompt_id": "x", "source": "web", "score": "5", "language": "en"}

CASES = [
    (MESSAGES, PAIR, {}),
    (MESSAGES, THOUGHT, {"name": 1, "reasoning_content": 1}),
    (MESSAGES, [user("hi"), assistant(PARTS)], {"annotations": 1}),
    (
        *(MESSAGES, {"messages": CALLED}),
        {"tool_calls": 1, "tool_call_id": 1, "note": 1, "reasoning": 2, "name": 1},
    ),
    (MESSAGES, {"messages": PAIR, **BESIDE}, {}),
    (MESSAGES, [user("hi", id="m1", source="web")], {"id": 1, "source": 1}),
    (
        *(MESSAGES, {"messages": PAIR, "system": "s", "tools": [{"name": "f"}], "images": ["a"]}),
        {"system": 1, "tools": 1, "images": 1},
    ),
    (MESSAGES, {"messages": PAIR, "a": "", "b": [{}, [""]], "c": 7, "d": None, "e": True}, {}),
    (CUSTOMJSON, [user("hi"), assistant("yo", tool_calls=[call("1")])], {"tool_calls": 1}),
    (SHAREGPT, {"conversations": [TURN], "system": "s", "tools": "t"}, {"tag": 1, "tools": 1}),
    (
        GSM8K,
        {"question": "a", "answer": "b", "hint": "c", "answers": ["d"]},
        {"hint": 1, "answers": 1},
    ),
    (PAIRS, {"prompt": "a", "response": "b", "completion": "c"}, {"completion": 1}),
    (PAIRS, {"prompt": "a", "response": "b", "": [None, "c"]}, {"": 1}),
    (PAIRS, {"prompt": "a", "response": None, "completion": "c", "system": ""}, {}),
    (ALPACA, {"instruction": "a", "input": "b", "output": "c", "text": "d"}, {"text": 1}),
    (ALPACA, {"instruction": "a", "output": "c", "history": [["a", "b"]], "system": "s"}, {}),
    (IMAGE_PAIRS, {"prompt": "a", "text": "b", "response": "c", "images": ["d"]}, {"text": 1}),
    (IMAGE_TEXT, {"text": "a", "response": "b", "image": "c", COUNTS: []}, {"response": 1}),
    (IMAGES, {"messages": THOUGHT, COUNTS: []}, {"name": 1, "reasoning_content": 1}),
]


@pytest.mark.parametrize(("dialect", "value", "expected"), CASES)
def test_text_that_is_not_rendered_is_counted_by_key(dialect, value, expected):
    assert unused_text(value, dialect) == expected


def test_ids_and_metadata_beside_a_conversation_are_not_counted():
    names = [name.replace("*", "any") for name in METADATA]
    value = {"messages": [user("hi")], "ticket": "7", **dict.fromkeys(names, "x")}
    assert unused_text(value, MESSAGES) == {"ticket": 1}
    assert unused_text(value, replace(MESSAGES, id_column="ticket")) == {}


def test_the_page_lists_metadata():
    page = Path("docs/chats.md").read_text(encoding="utf-8")
    listed = page.partition("### Text that is not rendered")[2].partition("\n## ")[0]
    assert {name.removeprefix("*") for name in METADATA} <= set(re.findall(r"`(\w+)`", listed))


def test_text_is_found_at_any_depth():
    for depth in (0, 5, sys.getrecursionlimit() // 2):
        nested = value_of(b'{"a":' * depth + b'["", "b"]' + b"}" * depth)
        assert holds_text(nested)
        assert not holds_text(value_of(b"[" * depth + b'[""]' + b"]" * depth))
