"""Dialects of conversations whose documents are lists of messages, pairs, or turns."""

from collections.abc import Callable, Iterator
from typing import Final

from nanotok_ray.dialects.fields import (
    JsonObject,
    kind_of,
    list_of,
    object_of,
    optional_string_of,
    quoted,
    string_of,
)
from nanotok_ray.dialects.tools import calls_as_parts
from nanotok_ray.errors import SourceError


def messages_of(value: object) -> list[JsonObject]:
    """Return the messages of a document.

    >>> messages_of({"messages": [{"role": "user", "content": "hi"}], "id": 7})
    [{'role': 'user', 'content': 'hi'}]

    Raises:
        SourceError: The document has another shape, or its tool calls are not supported.
    """
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        is_there = isinstance(value, dict) and "messages" in value
        what = f"'messages' that is {kind_of(messages)}" if is_there else kind_of(value)
        raise SourceError(
            f"expected an array of messages or an object with the array as 'messages', got {what}"
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


def _check_has(message: JsonObject, number: int, key: str) -> None:
    if key not in message:
        raise SourceError(f"message {number} has no {key!r}")


_MIN_MESSAGES = 2


def customjson_messages_of(value: object) -> list[JsonObject]:
    """Return the messages of a document.

    Raises:
        AssertionError: nanochat rejects the document, with the same message.
        SourceError: A message is not an object.
    """
    if not isinstance(value, list):
        text = f"Expected list of messages, got {type(value)}"
        raise AssertionError(text)  # noqa: TRY004 - nanochat's
    if len(value) < _MIN_MESSAGES:
        raise AssertionError(f"Conversation must have at least 2 messages, got {len(value)}")
    for number, message in enumerate(value):
        _check(message, number)
    return value


def _check(message: object, number: int) -> None:
    if not isinstance(message, dict):
        raise SourceError(f"message {number} is {kind_of(message)}, not an object")
    for key in ("role", "content"):
        if key not in message:
            raise AssertionError(f"Message {number} missing '{key}' field")
    expected = "assistant" if number % 2 else "user"
    if message["role"] != expected:
        raise AssertionError(
            f"Message {number} has role {message['role']} but should be {expected}"
        )
    if not isinstance(message["content"], str):
        text = f"Message {number} content must be a string"
        raise AssertionError(text)  # noqa: TRY004 - nanochat's


def pairs_messages_of(value: object) -> list[JsonObject]:
    """Return the messages of a document; `completion` is read if there is no `response`.

    >>> pairs_messages_of({"prompt": "hi", "completion": "hello"})
    [{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'hello'}]

    Raises:
        SourceError: The document does not have this shape.
    """
    document = object_of(value)
    messages = [
        {"role": "user", "content": string_of(document, "prompt")},
        {"role": "assistant", "content": string_of(document, "response", "completion")},
    ]
    return _after_system(document, messages)


def _after_system(document: JsonObject, messages: list[JsonObject]) -> list[JsonObject]:
    """Return the messages, after that of the field `system` unless it is empty."""
    system = optional_string_of(document, "system")
    return [{"role": "system", "content": system}, *messages] if system else messages


def alpaca_messages_of(value: object) -> list[JsonObject]:
    r"""Return the messages of a document; an empty line separates the instruction and the input.

    >>> row = {"instruction": "Add.", "input": "1, 2", "output": "3", "history": [["hi", "yo"]]}
    >>> [message["content"] for message in alpaca_messages_of(row)]
    ['hi', 'yo', 'Add.\n\n1, 2', '3']

    Raises:
        SourceError: The document does not have this shape.
    """
    document = object_of(value)
    texts = [string_of(document, "instruction"), optional_string_of(document, "input")]
    messages = [
        {"role": "user", "content": "\n\n".join(filter(None, texts))},
        {"role": "assistant", "content": string_of(document, "output")},
    ]
    return _after_system(document, [*_history(document), *messages])


def _history(document: JsonObject) -> Iterator[JsonObject]:
    """Yield the messages of earlier turns, each a pair of what the user and the assistant said."""
    pairs = document.get("history")
    for number, pair in enumerate([] if pairs is None else list_of(document, "history")):
        if not isinstance(pair, list) or [*map(type, pair)] != [str, str]:
            raise SourceError(f"history is not pairs of strings: pair {number} is not one")
        for role, content in zip(("user", "assistant"), pair, strict=True):
            yield {"role": role, "content": content}


SPEAKERS: Final = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}
"""The role of each known speaker."""


def sharegpt_messages_of(
    value: object, *, message_of: Callable[[JsonObject], JsonObject] | None = None
) -> list[JsonObject]:
    """Return the messages of a document; `message_of` makes those of unknown speakers.

    >>> turns = [{"from": "human", "value": "hi"}]
    >>> sharegpt_messages_of({"conversations": turns, "system": "Be kind."})
    [{'role': 'system', 'content': 'Be kind.'}, {'role': 'user', 'content': 'hi'}]

    Raises:
        SourceError: The document has another shape, a speaker is unknown, or there are two system
            messages.
    """
    document = object_of(value)
    turns = list_of(document, "conversations")
    if not turns:
        raise SourceError("the conversation has no turns")
    messages = [_message(turn, number, message_of) for number, turn in enumerate(turns)]
    system = optional_string_of(document, "system")
    if not system:
        return messages
    if any(message["role"] == "system" for message in messages):
        raise SourceError("two system messages: the field 'system' and a turn of 'system'")
    return [{"role": "system", "content": system}, *messages]


def _message(
    turn: object, number: int, message_of: Callable[[JsonObject], JsonObject] | None
) -> JsonObject:
    if not isinstance(turn, dict):
        raise SourceError(f"turn is not an object: turn {number} is {kind_of(turn)}")
    for key in ("from", "value"):
        if not isinstance(turn.get(key), str):
            raise SourceError(
                f"turn has no string {key!r}: in turn {number} it is {kind_of(turn.get(key))}"
            )
    role = SPEAKERS.get(turn["from"])
    if role is None and message_of is not None:
        return message_of(turn)
    if role is None:
        raise SourceError(
            f"unknown speaker: {quoted(turn['from'])} in turn {number}; known are "
            f"{', '.join(SPEAKERS)}"
        )
    return {"role": role, "content": turn["value"]}
