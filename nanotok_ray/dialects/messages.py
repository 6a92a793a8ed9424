"""Dialect `messages`: an array of messages, or an object that holds it.

Takes a JSON value; gives the messages as `chat.layout` takes them, tool calls turned into parts.
Whether the speakers take turns and what they say is `chat`'s to check.
"""

from typing import Any

from nanotok_ray.dialects.json_value import kind_of
from nanotok_ray.dialects.tools import calls_as_parts
from nanotok_ray.errors import SourceError


def messages_of(value: object) -> list[dict[str, Any]]:
    """Give the messages of a document.

    >>> messages_of({"messages": [{"role": "user", "content": "hi"}], "id": 7})
    [{'role': 'user', 'content': 'hi'}]

    Raises:
        SourceError: It is not of that shape, or its tool calls are not understood.
    """
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        is_there = isinstance(value, dict) and "messages" in value
        found = f"'messages' that is {kind_of(messages)}" if is_there else kind_of(value)
        raise SourceError(
            f"expected an array of messages or an object with the array as 'messages', got {found}"
        )
    if not messages:
        raise SourceError("the conversation has no messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise SourceError(f"message {number} is {kind_of(message)}, not an object")
        _check_has(message, number, "role")
    messages = calls_as_parts(messages)
    for number, message in enumerate(messages):
        _check_has(message, number, "content")
    return messages


def _check_has(message: dict[str, Any], number: int, key: str) -> None:
    if key not in message:
        raise SourceError(f"message {number} has no {key!r}")
