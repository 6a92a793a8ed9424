import pytest

from nanotok_ray.chat import expected_text, expected_trained_text, message_texts, segments_of
from nanotok_ray.dialects import MALFORMED, VISION_DIALECTS, Dialect, reason_of
from tests.support.dialect_documents import (
    PAIR,
    answered,
    asked,
    assistant,
    call,
    document_of,
    output,
    spelled,
    user,
)


def vision_dialect(name, **more):
    return Dialect(kind="vision", name=name, **{"image_token": "<|image|>", **more})


MESSAGES = vision_dialect("messages")
PAIRS = vision_dialect("prompt-response")
TEXT = vision_dialect("text")
IMAGE = "image 0 [<|image|>]"
END = "assistant 1 [<|assistant_end|>]"
COUNTS = "image_token_counts"
DET = ("<|det|>", "<|grounding|>")

ACCEPTED = [
    (
        PAIRS,
        {"prompt": "<image>\nOCR", "response": "A", COUNTS: [3]},
        [3],
        ["user 1 \nOCR", "assistant 1 A", END],
    ),
    (
        PAIRS,
        {"text": "<image>\nOCR", "response": "A", "prompt": None},
        [1],
        ["user 1 \nOCR", "assistant 1 A", END],
    ),
    (PAIRS, {"prompt": "<image>", "text": "x", "response": "", COUNTS: None}, [1], [END]),
    (
        PAIRS,
        {"prompt": "a", "response": "<image>", COUNTS: []},
        [],
        ["user 1 a", "assistant 1 <image>", END],
    ),
    (
        PAIRS,
        b'{"prompt": "<image>b", "response": "", "n": 1' + b"0" * 5000 + b"}",
        [1],
        ["user 1 b", END],
    ),
    (
        vision_dialect("prompt-response", image_tokens=4),
        {"prompt": "<image>", "response": ""},
        [4],
        [END],
    ),
    (
        vision_dialect("prompt-response", train_prompt=False),
        {"prompt": "<image>b", "response": "c"},
        [1],
        ["user 0 b", "assistant 1 c", END],
    ),
    (
        vision_dialect("prompt-response", grounding=DET),
        {"prompt": "<image><|grounding|>b", "response": "<|det|>"},
        [1],
        ["user 1 [<|grounding|>]", "user 1 b", "assistant 1 [<|det|>]", END],
    ),
    (
        vision_dialect("prompt-response", image_token="<image>"),
        {"prompt": "<|image|>", "response": "c"},
        [],
        ["user 1 <|image|>", "assistant 1 c", END],
    ),
    (TEXT, {"text": "<image><image>a<|assistant_end|>", COUNTS: [2, 1]}, [2, 1], ["user 1 a", END]),
    (TEXT, {"text": "<image>a", "response": "not read"}, [1], ["user 1 a"]),
    (vision_dialect("text", grounding=DET), {"text": "<image><|det|>"}, [1], ["user 1 [<|det|>]"]),
]


def copies(segments):
    return [each.count for each in segments if each.role == "image"]


@pytest.mark.parametrize(("dialect", "value", "counts", "expected"), ACCEPTED)
def test_a_document_is_its_images_followed_by_these_segments(dialect, value, counts, expected):
    document = document_of(value)
    segments = segments_of(document, dialect)
    images = [f"image 0 [{dialect.image_token}]"] * len(counts)
    assert spelled(segments) == ["bos 0 [<|bos|>]", *images, *expected]
    assert copies(segments) == counts


CONVERSATIONS = [
    (PAIR, [], [*asked("hi"), *answered("assistant 1 yo")]),
    (
        [user("a<image>b"), assistant("<image>")],
        [1],
        [*asked("a")[:2], IMAGE, *asked("b")[1:], *answered("assistant 1 <image>")],
    ),
    (
        {"messages": [{"role": "system", "content": "<image>s"}, user("b<image>")], COUNTS: [2, 5]},
        [2, 5],
        [asked()[0], IMAGE, "user 0 s\n\nb", IMAGE, asked()[1]],
    ),
    (
        [user("<image>"), assistant(None, tool_calls=[call("1")]), output("<image>")],
        [1],
        [asked()[0], IMAGE, asked()[1], "assistant 0 [<|assistant_start|>]"],
    ),
]


@pytest.mark.parametrize(("value", "counts", "expected"), CONVERSATIONS)
def test_a_conversation_has_images_where_the_user_puts_them(value, counts, expected):
    segments = segments_of(document_of(value), MESSAGES)
    assert spelled(segments)[: len(expected) + 1] == ["bos 0 [<|bos|>]", *expected]
    assert copies(segments) == counts


SHAPE = "expected an array of messages or an object with the array as 'messages', got "
ONE = {"prompt": "<image>", "response": ""}
REFUSED = [
    (PAIRS, [ONE], "not an object: an array"),
    (PAIRS, {"response": ""}, "field is missing: 'prompt' or 'text'"),
    (
        PAIRS,
        {"prompt": 7, "text": "a", "response": ""},
        "field is not a string: 'prompt' is a number",
    ),
    (PAIRS, {"prompt": "a", "completion": "b"}, "field is missing: 'response'"),
    (PAIRS, {"prompt": "a", "response": None}, "field is null: 'response'"),
    (PAIRS, {**ONE, COUNTS: [1, 2]}, "1 <image> placeholders but 2 image_token_counts"),
    (PAIRS, {**ONE, COUNTS: []}, "1 <image> placeholders but 0 image_token_counts"),
    (PAIRS, {**ONE, COUNTS: [0]}, "image token count must be an int >= 1, got 0"),
    (PAIRS, {**ONE, COUNTS: [True]}, "image token count must be an int >= 1, got True"),
    (PAIRS, {**ONE, COUNTS: [2.0]}, "image token count must be an int >= 1, got 2.0"),
    (
        PAIRS,
        b'{"prompt": "<image>", "response": "", "image_token_counts": [1000000000000000000000]}',
        "image token count must be an int >= 1, got 1e+21",
    ),
    (TEXT, {"prompt": "a", "response": "b"}, "field is missing: 'text'"),
    (TEXT, {"text": ["a"]}, "field is not a string: 'text' is an array"),
    (TEXT, {"text": "a", COUNTS: [1]}, "0 <image> placeholders but 1 image_token_counts"),
    (MESSAGES, {"messages": PAIR, COUNTS: [1]}, "0 <image> placeholders but 1 image_token_counts"),
    (
        MESSAGES,
        {"text": "a"},
        SHAPE + "an object with the keys 'text'",
    ),
    (MESSAGES, [assistant("a")], "Message 0 is from assistant but should be from user"),
    (MESSAGES, [user(["<image>"])], "User messages are simply expected to be strings"),
]


@pytest.mark.parametrize(("dialect", "value", "reason"), REFUSED)
def test_a_document_is_refused_with_this_reason(dialect, value, reason):
    with pytest.raises(MALFORMED) as caught:
        segments_of(document_of(value), dialect)
    assert reason_of(caught.value) == reason


@pytest.mark.parametrize("dialect", [MESSAGES, PAIRS, TEXT], ids=lambda dialect: dialect.name)
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
        segments_of(b"{}", vision_dialect(name, image_token=None))
    assert "'<image>' (preset seed)" in str(caught.value)
    assert "'<|image|>' (preset nano-deepseek-ocr)" in str(caught.value)


def test_an_unknown_dialect_is_refused_by_name():
    known = "known are messages, prompt-response, text"
    with pytest.raises(ValueError, match=f"'gsm8k'; {known}"):
        segments_of(b"{}", vision_dialect("gsm8k"))


def test_an_image_is_expected_as_often_as_it_has_tokens():
    document = document_of({"prompt": "<image>b", "response": "c", COUNTS: [3]})
    assert expected_text(document, PAIRS) == "<|bos|>" + "<|image|>" * 3 + "bc<|assistant_end|>"
    assert expected_trained_text(document, PAIRS) == "bc<|assistant_end|>"
    assert message_texts(document, PAIRS) == ["b", "c"]
