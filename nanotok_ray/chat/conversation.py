"""Renders conversations to token ids and loss masks, as nanochat does.

A conversation is {"messages": [{"role", "content"}, ...]}: at most one system message, then user
and assistant in turn. `layout` turns it into segments (a special token, or a text that is encoded
separately), each with its mask and role. Malformed conversations raise the errors that nanochat
raises. The input is not modified.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.chat.segments import Segment, compose
from nanotok_ray.documents import type_of

_PARTS: dict[str, tuple[str, str, int] | None] = {
    "text": None,
    "python": ("<|python_start|>", "<|python_end|>", 1),
    "python_output": ("<|output_start|>", "<|output_end|>", 0),
}
"""The tokens around a part of an assistant's message, whose role is its type, and its mask. The
output of a tool was not written by the assistant, so it is not trained on."""

Conversation = Mapping[str, Any]


def layout(conversation: Conversation) -> Iterator[Segment]:
    """Yield the segments of a conversation in order.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: The conversation is malformed.
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
    """Return the ids and the mask of a conversation, both cut to the first `max_tokens`.

    The cut can be inside a tool call, or can remove the last `<|assistant_end|>`. `encode` is
    called once for each text of `layout`, in that order.

    Raises:
        AssertionError, IndexError, KeyError, TypeError, ValueError: The conversation is malformed.
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
    """Return the ids that prompt for the last message: all before it, then `<|assistant_start|>`.

    As in nanochat, that token is not counted in `max_tokens`.

    Raises:
        AssertionError: The last message is not the assistant's, or the conversation is malformed.
        IndexError, KeyError, TypeError, ValueError: The conversation is malformed.
    """
    messages = conversation["messages"]
    if messages[-1]["role"] != "assistant":
        raise AssertionError("Last message must be from the Assistant")
    prompt = {"messages": messages[:-1]}
    ids, _ = render(encode, special_id, prompt, max_tokens=max_tokens)
    return [*ids, special_id("<|assistant_start|>")]


def shape_fault(conversation: object) -> str | None:
    """Return the problem with the shape of a conversation, or None if the shape is correct.

    >>> shape_fault([{"role": "user", "content": "hi"}])
    'it is a list: expected {"messages": [{"role": ..., "content": ...}, ...]}'
    >>> shape_fault({"messages": [{"role": "user"}]})
    "message 0 has no 'content', only role"
    """
    if not isinstance(conversation, Mapping) or "messages" not in conversation:
        kind = f"it is {type_of(conversation)}"
        if isinstance(conversation, Mapping):
            kind = f"it has no 'messages', only {', '.join(map(str, conversation)) or 'nothing'}"
        return f'{kind}: expected {{"messages": [{{"role": ..., "content": ...}}, ...]}}'
    messages = conversation["messages"]
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        return f"its messages are {type_of(messages)}: expected a list"
    faults = (_message_fault(number, message) for number, message in enumerate(messages))
    fault = next(filter(None, faults), None)
    if fault is None and [message["role"] for message in messages] in ([], ["system"]):
        return "a system message alone is not answered" if messages else "it has no messages"
    return fault


def _message_fault(number: int, message: object) -> str | None:
    if not isinstance(message, Mapping):
        return f"message {number} is {type_of(message)}: expected a dict"
    missing = [name for name in ("role", "content") if name not in message]
    if missing:
        keys = ", ".join(map(str, message)) or "nothing"
        return f"message {number} has no {missing[0]!r}, only {keys}"
    role, content = message["role"], message["content"]
    if role in {"system", "user"} and not isinstance(content, str):
        return f"the content of message {number}, from the {role}, is {type_of(content)}"
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, Mapping) or not {"type", "text"} <= part.keys():
            return f'message {number} has a part that is not {{"type": ..., "text": ...}}'
    return None


def _merge_system(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Prepend the text of a leading system message to the first message of the user."""
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
    """Yield the segments of a part. Its text is checked before its type, as in nanochat."""
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
