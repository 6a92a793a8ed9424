"""Detection of the dialect of a file from its first document or its columns."""

import pytest

from nanotok_ray.dialects import columns_of, detect, detect_columns
from nanotok_ray.errors import SourceError

CHAT = [
    ([], "messages"),
    ([{"role": "user", "content": "hi"}], "messages"),
    ({"messages": None}, "messages"),
    ({"prompt": "a", "completion": "b", "messages": []}, "messages"),
    ({"id": 1, "conversations": []}, "sharegpt"),
    ({"question": "a", "answer": "b"}, "gsm8k"),
    ({"prompt": "a", "response": "b"}, "prompt-response"),
    ({"prompt": "a", "completion": "b"}, "prompt-response"),
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
