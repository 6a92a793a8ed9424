"""Conversations to token ids and loss masks, as nanochat renders them.

A conversation is {"messages": [{"role", "content"}, ...]}: at most one system message, then user
and assistant in turn. `layout` turns it into segments (a special token, or a text that is encoded
on its own), each with its mask; everything else here follows from that one list. Malformed
conversations raise the very errors that nanochat raises (`MALFORMED`). Takes the encoder as a
function and knows no tokenizer; never changes its input.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.errors import SourceError
from nanotok_ray.segments import Segment, compose

MALFORMED = (AssertionError, LookupError, TypeError, ValueError)
"""What a malformed conversation raises; `reason_of` words it."""

_PARTS: dict[str, tuple[str, str, int] | None] = {
    "text": None,
    "python": ("<|python_start|>", "<|python_end|>", 1),
    "python_output": ("<|output_start|>", "<|output_end|>", 0),
}
"""The tokens around a part of an assistant's message, whose role is its type, and its mask: what a
tool puts out was not written by the assistant, so nothing is learned from it."""

Conversation = Mapping[str, Any]


def parse_conversation(line: bytes) -> dict[str, Any]:
    """Read one JSON line: an array of messages, or an object with the array as "messages".

    >>> parse_conversation(b'[{"role": "user", "content": "hi"}]')
    {'messages': [{'role': 'user', 'content': 'hi'}]}

    Raises:
        SourceError: The line is not JSON, or not of that shape.
    """
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SourceError(f"invalid UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise SourceError("invalid JSON: nested too deeply") from error
    except ValueError as error:
        raise SourceError(f"invalid JSON: {error}") from error
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list):
        raise SourceError(
            "expected an array of messages or an object with the array as 'messages', "
            f"got {_kind(value)}"
        )
    _check_messages(messages)
    return {"messages": messages}


def layout(conversation: Conversation) -> Iterator[Segment]:
    """Give the segments of a conversation in order.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    messages = _merge_system(conversation["messages"])
    yield _special("<|bos|>", role="bos")
    for number, message in enumerate(messages):
        expected = "assistant" if number % 2 else "user"
        if message["role"] != expected:
            raise AssertionError(
                f"Message {number} is from {message['role']} but should be from {expected}"
            )
        if expected == "user":
            yield from _user(message["content"])
        else:
            yield from _assistant(message["content"])


def render(
    encode: Callable[[str], Sequence[int]],
    special_id: Callable[[str], int],
    conversation: Conversation,
    *,
    max_tokens: int | None,
) -> tuple[list[int], list[int]]:
    """Give the ids and the mask of a conversation, both cut to the first `max_tokens`.

    The cut repairs nothing: it may fall inside a tool call or lose the last `<|assistant_end|>`.
    `encode` is called once for each of `message_texts`, in that order.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    composed = compose(encode, special_id, layout(conversation))
    return composed.ids[:max_tokens], composed.mask[:max_tokens]


def render_for_completion(
    encode: Callable[[str], Sequence[int]],
    special_id: Callable[[str], int],
    conversation: Conversation,
    *,
    max_tokens: int | None,
) -> list[int]:
    """Give the ids that ask for the last message: all before it, then `<|assistant_start|>`.

    As in nanochat that token comes on top of `max_tokens`.

    Raises:
        AssertionError: The last message is not the assistant's, or it is otherwise malformed.
        IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    messages = conversation["messages"]
    if messages[-1]["role"] != "assistant":
        raise AssertionError("Last message must be from the Assistant")
    prompt = {"messages": messages[:-1]}
    ids, _ = render(encode, special_id, prompt, max_tokens=max_tokens)
    return [*ids, special_id("<|assistant_start|>")]


def message_texts(conversation: Conversation) -> list[str]:
    """Give every text that is encoded on its own, in the order of their ids.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    return [segment.text for segment in layout(conversation) if not segment.is_special]


def expected_text(conversation: Conversation) -> str:
    """Give what the ids of a conversation decode to: its texts, and special tokens by name.

    >>> expected_text({"messages": [{"role": "user", "content": "hi"}]})
    '<|bos|><|user_start|>hi<|user_end|>'

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    return "".join(segment.text for segment in layout(conversation))


def expected_trained_text(conversation: Conversation) -> str:
    """Give what the ids with mask 1 decode to.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: It is malformed, and how.
    """
    return "".join(segment.text for segment in layout(conversation) if segment.mask)


def reason_of(error: BaseException) -> str:
    """Word an error of a malformed conversation for a reader who does not see the conversation.

    >>> reason_of(KeyError("text"))
    "KeyError: 'text'"
    """
    if isinstance(error, SourceError) or type(error) in (AssertionError, ValueError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _merge_system(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Put a leading system message before the text of the user's first."""
    if messages[0]["role"] != "system":
        return messages
    if messages[1]["role"] != "user":
        raise AssertionError("System message must be followed by a user message")
    content = messages[0]["content"] + "\n\n" + messages[1]["content"]
    return [{**messages[1], "content": content}, *messages[2:]]


def _user(content: object) -> Iterator[Segment]:
    if not isinstance(content, str):
        text = "User messages are simply expected to be strings"
        raise AssertionError(text)  # noqa: TRY004 - nanochat's
    yield _special("<|user_start|>", role="user")
    yield _text(content, mask=0, role="user")
    yield _special("<|user_end|>", role="user")


def _assistant(content: object) -> Iterator[Segment]:
    yield _special("<|assistant_start|>", role="assistant")
    if isinstance(content, str):
        yield _text(content, mask=1, role="assistant")
    elif isinstance(content, list):
        for part in content:
            yield from _part(part)
    else:
        raise ValueError(f"Unknown content type: {type(content)}")  # noqa: TRY004 - nanochat's
    yield _special("<|assistant_end|>", mask=1, role="assistant")


def _part(part: Mapping[str, Any]) -> Iterator[Segment]:
    """Give the segments of a part; its text is looked at before its type, as nanochat does."""
    text = part["text"]
    if not isinstance(text, str):
        raise ValueError(f"Invalid input type: {type(text)}")  # noqa: TRY004 - nanochat's
    kind = part["type"]
    if not isinstance(kind, str) or kind not in _PARTS:
        raise ValueError(f"Unknown part type: {kind}")
    around = _PARTS[kind]
    if around is None:
        yield _text(text, mask=1, role="assistant")
        return
    start, end, mask = around
    yield _special(start, mask=mask, role=kind)
    yield _text(text, mask=mask, role=kind)
    yield _special(end, mask=mask, role=kind)


def _special(name: str, *, role: str, mask: int = 0) -> Segment:
    return Segment(text=name, is_special=True, mask=mask, role=role)


def _text(text: str, *, role: str, mask: int) -> Segment:
    return Segment(text=text, is_special=False, mask=mask, role=role)


def _check_messages(messages: list[Any]) -> None:
    if not messages:
        raise SourceError("the conversation has no messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            raise SourceError(f"message {number} is {_kind(message)}, not an object")
        for key in ("role", "content"):
            if key not in message:
                raise SourceError(f"message {number} has no {key!r}")


def _kind(value: object) -> str:
    """Say what a JSON value is without repeating it: it may be long, or nested deeply."""
    if isinstance(value, dict):
        keys = [repr(name[:40]) for name in list(value)[:5]]
        return f"an object with the keys {', '.join(keys) or '(none)'}"
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
