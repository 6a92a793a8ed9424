"""Rows of every dialect of conversations as messages for a chat template, with all of their keys.

Chat templates decide what is well formed: names of tools, arguments, reasoning and the parts of a
text stay as they are in the row.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from nanotok_ray.dialects.fields import (
    JsonObject,
    kind_of,
    object_of,
    quoted,
    string_of,
    value_of_text,
)
from nanotok_ray.dialects.messages import (
    SPEAKERS,
    alpaca_messages_of,
    pairs_messages_of,
    sharegpt_messages_of,
)
from nanotok_ray.errors import SourceError


class Row(NamedTuple):
    """The conversation of a row."""

    messages: list[JsonObject]
    tools: list[Any] | None
    """The tools that the row describes; None: none."""


REASONING: Final = ("reasoning_content", "thinking", "reasoning")
"""Names of the reasoning of a message; the first that is set counts."""

MEDIA: Final = ("image", "image_url", "video", "audio", "input_audio")
"""The types of parts of a message that are not text."""

_ANSWERS: Final = ("observation", "tool")
"""The speakers of ShareGPT that answer a call."""


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
    if "role" not in message:
        raise SourceError(f"message {number} has no 'role'")
    if not isinstance(message["role"], str):
        raise SourceError(f"the role of message {number} is {kind_of(message['role'])}")
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


def _of_tools(turn: JsonObject) -> JsonObject:
    """Return the message of a turn of ShareGPT that only conversations with tools have."""
    speaker, said = turn["from"], turn["value"]
    if speaker == "function_call":
        return {"role": "assistant", "content": "", "tool_calls": [*_calls(said)]}
    if speaker in _ANSWERS:
        return {"role": "tool", "content": said}
    known = ", ".join((*SPEAKERS, "function_call", *_ANSWERS))
    raise SourceError(f"unknown speaker: {quoted(speaker)}; known are {known}")


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
    "sharegpt": partial(sharegpt_messages_of, message_of=_of_tools),
    "gsm8k": _question,
    "prompt-response": pairs_messages_of,
    "alpaca": alpaca_messages_of,
}
