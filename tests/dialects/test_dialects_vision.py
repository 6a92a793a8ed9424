import pytest

from nanotok_ray.chat import expected_text, expected_trained_text, message_texts, segments_of
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
from tests.support.dialect_strategies import vision


def pairs(**more):
    return vision("prompt-response", **{"image_token": "<|image|>", **more})


MESSAGES = vision("messages", image_token="<|image|>")
PAIRS = pairs()
TEXT = vision("text", image_token="<|image|>")
IMAGE = "image 0 [<|image|>]"
END = "assistant 1 [<|assistant_end|>]"
COUNTS = "image_token_counts"
DET = ("<|det|>", "<|grounding|>")
OCR = ["user 1 \nOCR", "assistant 1 A", END]
A_NUMBER = b'{"prompt": "<image>b", "response": "", "n": 1' + b"0" * 5000 + b"}"

# For each dialect: a document, the numbers of tokens of its images, and its other segments.
ACCEPTED = [
    (PAIRS, {"prompt": "<image>\nOCR", "response": "A", COUNTS: [3]}, [3], OCR),
    (PAIRS, {"text": "<image>\nOCR", "response": "A", "prompt": None}, [1], OCR),
    (PAIRS, {"prompt": "<image>", "text": "x", "response": "", COUNTS: None}, [1], [END]),
    (
        *(PAIRS, {"prompt": "a", "response": "<image>", COUNTS: []}, []),
        ["user 1 a", "assistant 1 <image>", END],
    ),
    (PAIRS, A_NUMBER, [1], ["user 1 b", END]),
    (pairs(image_tokens=4), {"prompt": "<image>", "response": ""}, [4], [END]),
    (
        *(pairs(train_prompt=False), {"prompt": "<image>b", "response": "c"}, [1]),
        ["user 0 b", "assistant 1 c", END],
    ),
    (
        *(pairs(grounding=DET), {"prompt": "<image><|grounding|>b", "response": "<|det|>"}, [1]),
        ["user 1 [<|grounding|>]", "user 1 b", "assistant 1 [<|det|>]", END],
    ),
    (
        *(pairs(image_token="<image>"), {"prompt": "<|image|>", "response": "c"}, []),
        ["user 1 <|image|>", "assistant 1 c", END],
    ),
    (TEXT, {"text": "<image><image>a<|assistant_end|>", COUNTS: [2, 1]}, [2, 1], ["user 1 a", END]),
    (TEXT, {"text": "<image>a", "response": "not read"}, [1], ["user 1 a"]),
    (
        vision("text", image_token="<|image|>", grounding=DET),
        *({"text": "<image><|det|>"}, [1], ["user 1 [<|det|>]"]),
    ),
]


def copies(segments):
    return [each.count for each in segments if each.role == "image"]


@pytest.mark.parametrize(("dialect", "value", "counts", "expected"), ACCEPTED)
def test_a_document_is_its_images_followed_by_these_segments(dialect, value, counts, expected):
    segments = segments_of(document_of(value), dialect)
    images = [f"image 0 [{dialect.image_token}]"] * len(counts)
    assert spelled(segments) == ["bos 0 [<|bos|>]", *images, *expected]
    assert copies(segments) == counts


CONVERSATIONS = [
    (PAIR, [], [*asked("hi"), *answered("assistant 1 yo")]),
    (
        *([user("a<image>b"), assistant("<image>")], [1]),
        [*asked("a")[:2], IMAGE, *asked("b")[1:], *answered("assistant 1 <image>")],
    ),
    (
        {"messages": [{"role": "system", "content": "<image>s"}, user("b<image>")], COUNTS: [2, 5]},
        *([2, 5], [asked()[0], IMAGE, "user 0 s\n\nb", IMAGE, asked()[1]]),
    ),
    (
        *([user("<image>"), assistant(None, tool_calls=[call("1")]), output("<image>")], [1]),
        [asked()[0], IMAGE, asked()[1], "assistant 0 [<|assistant_start|>]"],
    ),
]


@pytest.mark.parametrize(("value", "counts", "expected"), CONVERSATIONS)
def test_a_conversation_has_images_where_the_user_puts_them(value, counts, expected):
    segments = segments_of(document_of(value), MESSAGES)
    assert spelled(segments)[: len(expected) + 1] == ["bos 0 [<|bos|>]", *expected]
    assert copies(segments) == counts


def test_an_image_is_expected_as_often_as_it_has_tokens():
    document = document_of({"prompt": "<image>b", "response": "c", COUNTS: [3]})
    assert expected_text(document, PAIRS) == "<|bos|>" + "<|image|>" * 3 + "bc<|assistant_end|>"
    assert expected_trained_text(document, PAIRS) == "bc<|assistant_end|>"
    assert message_texts(document, PAIRS) == ["b", "c"]
