"""Rows of every dialect of conversations as messages for a chat template, with all of their keys.

Chat templates decide what is well formed: names of tools, arguments, reasoning and the parts of a
text stay as they are in the row.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from nanotok_ray.dialects.fields import (
    JsonObject,
    kind_of,
    list_of,
    object_of,
    optional_string_of,
    quoted,
    string_of,
    value_of_text,
)
from nanotok_ray.dialects.messages import SPEAKERS, alpaca_messages_of, pairs_messages_of
from nanotok_ray.errors import SourceError


class Row(NamedTuple):
    """The conversation of a row."""

    messages: list[JsonObject]
    tools: list[Any] | None
    """The tools that the row describes; None: none."""


MEDIA: Final = ("image", "image_url", "video", "audio", "input_audio")
"""The types of parts of a message that are not text."""

_TOOL_SPEAKERS: Final = {"function_call": "assistant", "observation": "tool", "tool": "tool"}
"""The role of each speaker of ShareGPT that only conversations with tools have."""


def row_of(value: object, dialect: str, *, tools: str | None = None) -> Row:
    """Return the conversation of a row.

    >>> row = {"conversations": [{"from": "human", "value": "hi"}]}
    >>> row_of(row, "sharegpt")
    Row(messages=[{'role': 'user', 'content': 'hi'}], tools=None)

    Args:
        value: the row.
        dialect: one of `CHAT_DIALECTS`.
        tools: the key of the tools, whose value is an array or the JSON of one; None: none.

    Raises:
        SourceError: The row does not have the shape of the dialect, or a message has an image.
    """
    messages = _READERS[dialect](value)
    if not messages:
        raise SourceError("the conversation has no messages")
    for number, message in enumerate(messages):
        _check_message(message, number)
    described = value.get(tools) if isinstance(value, dict) and tools is not None else None
    if isinstance(described, str):
        described = value_of_text(described, exact=True) if described.strip() else None
    if not isinstance(described, list | None):
        raise SourceError(f"field is not an array: {tools!r} is {kind_of(described)}")
    return Row(messages, described or None)


def _check_message(message: object, number: int) -> None:
    if not isinstance(message, dict):
        raise SourceError(f"message {number} is {kind_of(message)}, not an object")
    if not isinstance(message.get("role"), str):
        raise SourceError(f"message {number} has no string 'role'")
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in MEDIA:
            raise SourceError(
                f"message {number} has a part of type {quoted(part['type'])}; conversations with "
                'images are of kind = "vision"'
            )


def _listed(value: object) -> list[JsonObject]:
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        raise SourceError(
            "expected an array of messages or an object with the array as 'messages', got "
            f"{kind_of(value)}"
        )
    return messages


def _sharegpt(value: object) -> list[JsonObject]:
    document = object_of(value)
    messages = [*map(_turn, list_of(document, "conversations"))]
    system = optional_string_of(document, "system")
    if not system:
        return messages
    if any(message["role"] == "system" for message in messages):
        raise SourceError("two system messages: the field 'system' and a turn of 'system'")
    return [{"role": "system", "content": system}, *messages]


def _turn(turn: object) -> JsonObject:
    if not isinstance(turn, dict) or not all(isinstance(turn.get(k), str) for k in _TURN):
        raise SourceError(
            f"a turn is not an object with the strings 'from' and 'value': {kind_of(turn)}"
        )
    speaker, said = turn["from"], turn["value"]
    role = SPEAKERS.get(speaker) or _TOOL_SPEAKERS.get(speaker)
    if role is None:
        known = ", ".join((*SPEAKERS, *_TOOL_SPEAKERS))
        raise SourceError(f"unknown speaker: {quoted(speaker)}; known are {known}")
    if speaker == "function_call":
        return {"role": role, "content": "", "tool_calls": [*_calls(said)]}
    return {"role": role, "content": said}


_TURN = ("from", "value")


def _calls(said: str) -> Iterator[JsonObject]:
    """Yield the calls of a turn, which is the JSON of one or of an array of them."""
    value = value_of_text(said, exact=True)
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise SourceError(f"function_call has no name: {said!r:.80}")
        yield {
            "type": "function",
            "function": {"name": call["name"], "arguments": call.get("arguments")},
        }


def _question(value: object) -> list[JsonObject]:
    document = object_of(value)
    return [
        {"role": "user", "content": string_of(document, "question")},
        {"role": "assistant", "content": string_of(document, "answer")},
    ]


_READERS: Final[dict[str, Callable[[object], list[JsonObject]]]] = {
    "messages": _listed,
    "customjson": _listed,
    "sharegpt": _sharegpt,
    "gsm8k": _question,
    "prompt-response": pairs_messages_of,
    "alpaca": alpaca_messages_of,
}
