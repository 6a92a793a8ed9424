"""Renders documents to segments in plain Python: the reference for tests of the compiled core."""

from collections.abc import Callable
from typing import Any, Final

from nanotok_ray import chat
from nanotok_ray.chat import conversation
from nanotok_ray.chat.segments import Segment
from nanotok_ray.dialects import (
    VISION_DIALECTS,
    Dialect,
    gsm8k,
    messages,
    messages_of,
    object_of,
    string_of,
    value_of,
)
from nanotok_ray.dialects import messages as alpaca
from nanotok_ray.dialects import messages as customjson
from nanotok_ray.dialects import messages as pairs
from nanotok_ray.dialects import messages as sharegpt
from nanotok_ray.recipe import PRESETS

COUNTS = "image_token_counts"
"""The field with the number of tokens of each image of a document."""


def vision_segments_of(value: object, dialect: Dialect) -> list[Segment]:
    """Return the segments of a document with images.

    Raises:
        SourceError: The document does not have the shape of its dialect.
        AssertionError, LookupError, TypeError, ValueError, RecursionError: The document or the
            dialect is malformed; the message has the reason.
    """
    images = chat.ImageSettings(
        token=_image_token_of(dialect),
        counts=value.get(COUNTS) if isinstance(value, dict) else None,
        num_tokens=dialect.image_tokens,
        grounding=dialect.grounding,
    )
    if dialect.name == "messages":
        return chat.message_segments({"messages": messages_of(value)}, images)
    document = object_of(value)
    if dialect.name == "text":
        return chat.text_segments(string_of(document, "text"), images)
    prompt, response = string_of(document, "prompt", "text"), string_of(document, "response")
    return chat.prompt_segments(prompt, response, images, train_prompt=dialect.train_prompt)


def _image_token_of(dialect: Dialect) -> str:
    if dialect.name not in VISION_DIALECTS:
        known = ", ".join(VISION_DIALECTS)
        raise ValueError(f"unknown dialect of kind 'vision': {dialect.name!r}; known are {known}")
    if dialect.image_token is None:
        tokens = " or ".join(
            f"{preset.image_token!r} (preset {name})" for name, preset in PRESETS.items()
        )
        raise ValueError(
            f"no image token: dialect {dialect.name!r} of kind 'vision' needs the special token "
            f"that stands for an image, {tokens}, or another of the tokenizer's"
        )
    return dialect.image_token


Raw = bytes | bytearray

_MESSAGES_OF: Final[dict[tuple[str, str], Callable[[object], list[dict[str, Any]]]]] = {
    ("chat", "messages"): messages.messages_of,
    ("chat", "customjson"): customjson.customjson_messages_of,
    ("chat", "sharegpt"): sharegpt.sharegpt_messages_of,
    ("chat", "gsm8k"): gsm8k.messages_of,
    ("chat", "prompt-response"): pairs.pairs_messages_of,
    ("chat", "alpaca"): alpaca.alpaca_messages_of,
    ("vision", "messages"): messages.messages_of,
}


def segments_of(document: Raw, dialect: Dialect) -> list[Segment]:
    """Return the segments of a document.

    >>> line = b'{"question": "1+1?", "answer": "<<1+1=2>>2"}'
    >>> [segment.text for segment in segments_of(line, Dialect(kind="chat", name="gsm8k"))][5:]
    ['', '<|python_start|>', '1+1', '<|python_end|>', '<|output_start|>', '2', '<|output_end|>',
     '2', '<|assistant_end|>']

    Raises:
        SourceError: The document is not JSON, or does not have the shape of its dialect.
        AssertionError, LookupError, TypeError, ValueError, RecursionError: The document is
            malformed; the message has the reason.
    """
    if dialect.kind == "vision":
        return vision_segments_of(value_of(document), dialect)
    return list(conversation.layout(conversation_of(document, dialect)))


def conversation_of(document: Raw, dialect: Dialect) -> conversation.Conversation:
    """Return the conversation of a document, whose dialect must be one of conversations.

    Raises:
        SourceError: The document is not JSON, or does not have the shape of its dialect.
        AssertionError: The document is not a conversation of `customjson`.
        ValueError: The dialect has no conversations.
    """
    return {"messages": _reader_of(dialect)(value_of(document))}


def message_texts(document: Raw, dialect: Dialect) -> list[str]:
    """Return every text that is encoded on its own, in the order of the ids.

    Raises:
        SourceError, AssertionError, LookupError, TypeError, ValueError, RecursionError: As for
            `segments_of`.
    """
    return [segment.text for segment in segments_of(document, dialect) if not segment.is_special]


def _reader_of(dialect: Dialect) -> Callable[[object], list[dict[str, Any]]]:
    reader = _MESSAGES_OF.get((dialect.kind, dialect.name))
    if reader is None:
        known = ", ".join(f"{name} of kind {kind}" for kind, name in _MESSAGES_OF)
        raise ValueError(
            f"dialect {dialect.name!r} of kind {dialect.kind!r} has no conversations; these do: "
            f"{known}"
        )
    return reader
