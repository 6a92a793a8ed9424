"""Dialect `customjson`: nanochat's CustomJSON, with its rules and the words of its refusals.

Takes a JSON value; gives its messages: an array, user and assistant in turn, strings alone.
"""

from typing import Any

from nanotok_ray.dialects.json_value import kind_of
from nanotok_ray.errors import SourceError

_FEWEST = 2


def messages_of(value: object) -> list[dict[str, Any]]:
    """Give the messages of a document.

    Raises:
        AssertionError: nanochat refuses it, in these words.
        SourceError: A message is no object.
    """
    if not isinstance(value, list):
        text = f"Expected list of messages, got {type(value)}"
        raise AssertionError(text)  # noqa: TRY004 - nanochat's
    if len(value) < _FEWEST:
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
