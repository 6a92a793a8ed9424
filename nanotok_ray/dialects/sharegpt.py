"""Dialect `sharegpt`: an object whose `conversations` are turns with `from` and `value`.

Takes a JSON value; gives the messages it stands for. Whether the speakers take turns is `chat`'s to
check.
"""

from typing import Any, Final

from nanotok_ray.dialects.fields import list_of, object_of, optional_string_of
from nanotok_ray.dialects.json_value import kind_of, quoted
from nanotok_ray.errors import SourceError

SPEAKERS: Final = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
}
"""The role of each speaker that is understood."""


def messages_of(value: object) -> list[dict[str, Any]]:
    """Give the messages of a document.

    >>> messages_of({"conversations": [{"from": "human", "value": "hi"}], "system": "Be kind."})
    [{'role': 'system', 'content': 'Be kind.'}, {'role': 'user', 'content': 'hi'}]

    Raises:
        SourceError: It is not of that shape, a speaker is unknown, or two things are its system
            message.
    """
    document = object_of(value)
    turns = list_of(document, "conversations")
    if not turns:
        raise SourceError("the conversation has no turns")
    messages = [_message(turn, number) for number, turn in enumerate(turns)]
    system = optional_string_of(document, "system")
    if not system:
        return messages
    if any(message["role"] == "system" for message in messages):
        raise SourceError("two system messages: the field 'system' and a turn of 'system'")
    return [{"role": "system", "content": system}, *messages]


def _message(turn: object, number: int) -> dict[str, Any]:
    if not isinstance(turn, dict):
        raise SourceError(f"turn is not an object: turn {number} is {kind_of(turn)}")
    for key in ("from", "value"):
        if not isinstance(turn.get(key), str):
            raise SourceError(
                f"turn has no string {key!r}: in turn {number} it is {kind_of(turn.get(key))}"
            )
    role = SPEAKERS.get(turn["from"])
    if role is None:
        raise SourceError(
            f"unknown speaker: {quoted(turn['from'])} in turn {number}; known are "
            f"{', '.join(SPEAKERS)}"
        )
    return {"role": role, "content": turn["value"]}
