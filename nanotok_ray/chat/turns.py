"""The turns of the assistant in a rendered conversation: the plain reference for loss masks.

A template with `{% generation %}` blocks says what the assistant wrote. In the text of another one,
a turn is located in two ways. Both must agree with the text that is encoded, or the conversation is
refused:

1. Marks. Every message is rendered once more with private characters around its content, so that
   the text between the content of two messages is known to be the template's. In it, the text of
   the generation prompt begins a turn, and the text that ends an answer ends it; each must occur
   exactly once. If no text ends an answer, a turn with tool calls is not located in this way.
2. Prefixes. A turn is what the conversation up to this turn has after the prompt for it, if both
   are prefixes of the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from nanotok_ray.dialects import REASONING, JsonObject
from nanotok_ray.errors import SourceError

Span = tuple[int, int]
"""Start and end of a part of a text in characters."""

_FIRST_MARK = 0xF0000
"""Marks are characters from here on: start and end of the content of message n are 2n and 2n + 1,
and those of its reasoning are `_MAX_MESSAGES` messages later."""

_MAX_MESSAGES = 1 << 14
_MARK = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + 4 * _MAX_MESSAGES - 1)}]")
_SHOWN = 30  # characters of a text in a message
_USER: JsonObject = {"role": "user", "content": "Aq1"}
_ANSWER: JsonObject = {"role": "assistant", "content": "Bz2"}


class Template(Protocol):
    """A compiled chat template."""

    @property
    def has_generation(self) -> bool:
        """Whether it has `{% generation %}` blocks."""

    def render(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
    ) -> tuple[str, list[Span]]:
        """Return the text of messages, and the spans of its blocks.

        Raises:
            SourceError: The template refuses the messages.
        """


class Anchors(NamedTuple):
    """What a template writes around an answer to a message of the user."""

    start: str
    """Before the answer: the generation prompt, or else the end of the user's message."""
    end: str
    """After the answer."""


class TurnFinder:
    """Locates the turns of the assistant in the texts of one template."""

    def __init__(self, template: Template) -> None:
        """Store the template."""
        self._template = template

    def turns(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None = None
    ) -> tuple[str, list[Span]]:
        """Return the text of a conversation, and the span of each turn of the assistant.

        Raises:
            SourceError: The template refuses the conversation, or a turn cannot be located.
        """
        text, spans = self._template.render(messages, tools=tools)
        if self._template.has_generation:
            return text, spans
        try:
            return text, self._marked_turns(messages, tools, text)
        except _UnknownTurnError:
            return text, [*self._prefixed_turns(messages, tools, text)]

    def reasoning(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None, text: str
    ) -> list[Span]:
        """Return the spans of the reasoning of messages in their text.

        Raises:
            SourceError: It cannot be located.
        """
        try:
            places = self._places(messages, tools, text)
        except _UnknownTurnError as error:
            raise SourceError(f"the reasoning cannot be located: {error}") from None
        first = _MAX_MESSAGES
        return [(start, end) for number, (start, end) in places.items() if number >= first]

    def calls(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None, text: str
    ) -> Iterator[Span]:
        """Yield the span of the tool calls of each message that has some.

        It is the part of the text that is missing if the message has no calls.

        Raises:
            SourceError: It cannot be located.
        """
        for number, message in enumerate(messages):
            if not message.get("tool_calls"):
                continue
            without = {key: value for key, value in message.items() if key != "tool_calls"}
            others = [*messages[:number], without, *messages[number + 1 :]]
            shorter, _ = self._template.render(others, tools=tools)
            start = _common(text, shorter)
            rest = len(shorter) - start
            end = len(text) - rest
            if end < start or text[end:] != shorter[start:]:
                raise SourceError(f"the tool calls of message {number} cannot be located")
            while start and text[start - 1] == text[end - 1] and end > start:
                start, end = start - 1, end - 1  # equal text around the calls belongs to the end
            yield start, end

    @cached_property
    def anchors(self) -> Anchors | None:
        """The text around an answer, or None if it is not the same in a short conversation."""
        render = self._template.render
        try:
            asked, _ = render([_USER], add_generation_prompt=True)
            marked, _ = render([*_marked([_USER])], add_generation_prompt=True)
            plain, _ = render([_USER])
            answered, _ = render([_USER, _ANSWER])
        except SourceError:
            return None
        prompt = asked[len(plain) :] if asked.startswith(plain) else ""
        tail = marked.rpartition(chr(_FIRST_MARK + 1))[2]
        if answered.count(_ANSWER["content"]) != 1 or not tail:
            return None
        return Anchors(start=prompt or tail, end=answered.partition(_ANSWER["content"])[2])

    def _marked_turns(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None, text: str
    ) -> list[Span]:
        anchors = self.anchors
        if anchors is None:
            raise _UnknownTurnError("the template does not render a question and its answer")
        places = {
            number: place
            for number, place in self._places(messages, tools, text).items()
            if number < _MAX_MESSAGES
        }
        numbers = sorted(places)
        turns = []
        for number in _assistant(messages):
            if number not in places:
                raise _UnknownTurnError(f"message {number} is not in the text")
            before = [places[other][1] for other in numbers if other < number]
            after = [places[other][0] for other in numbers if other > number]
            if not anchors.end and messages[number].get("tool_calls"):
                raise _UnknownTurnError(f"the end of the calls in message {number} is not known")
            start, end = places[number]
            first, last = before[-1] if before else 0, after[0] if after else len(text)
            if not first <= start <= end <= last:
                raise _UnknownTurnError("the template changes the order of messages")
            turns.append(
                (
                    _after(anchors.start, text, first, start, number),
                    _after(anchors.end, text, end, last, number),
                )
            )
        return turns

    def _places(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None, text: str
    ) -> Mapping[int, Span]:
        """Return the position of the content of messages in the text, by number."""
        if len(messages) > _MAX_MESSAGES or _MARK.search(text):
            raise _UnknownTurnError("it has characters of the private use plane 15")
        try:
            marked, _ = self._template.render([*_marked(messages)], tools=tools)
        except SourceError as error:
            raise _UnknownTurnError(str(error)) from None
        places: dict[int, Span] = {}
        parts: list[str] = []
        position = start = 0
        for mark in _MARK.finditer(marked):
            parts.append(marked[start : mark.start()])
            position += mark.start() - start
            start = mark.end()
            number = (ord(mark[0]) - _FIRST_MARK) // 2
            places[number] = (places.get(number, (position, position))[0], position)
        if "".join([*parts, marked[start:]]) != text:
            raise _UnknownTurnError("the template reads the content of messages")
        return places

    def _prefixed_turns(
        self, messages: Sequence[JsonObject], tools: Sequence[Any] | None, text: str
    ) -> Iterator[Span]:
        for number in _assistant(messages):
            why = f"the assistant's turn in message {number} cannot be located: "
            try:
                asked, _ = self._template.render(
                    messages[:number], tools=tools, add_generation_prompt=True
                )
                answered, _ = self._template.render(messages[: number + 1], tools=tools)
            except SourceError as error:
                raise SourceError(f"{why}without what follows, {error}") from None
            if not answered.startswith(asked):
                raise SourceError(
                    f"{why}it does not continue the text that asks for it, which ends with "
                    f"{asked[-_SHOWN:]!r}; name a template with blocks as training_template"
                )
            if not text.startswith(answered):
                raise SourceError(f"{why}what comes before it depends on what follows")
            yield len(asked), len(answered)


class _UnknownTurnError(Exception):
    """Marks do not locate a turn; the message is the reason."""


def _assistant(messages: Sequence[JsonObject]) -> list[int]:
    return [number for number, one in enumerate(messages) if one["role"] == "assistant"]


def _marked(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield messages with marks around their content and reasoning."""
    for number, message in enumerate(messages):
        marked = {**message}
        if "content" in message:
            marked["content"] = _marked_content(message["content"], number)
        for key in REASONING:
            if isinstance(message.get(key), str):
                marked[key] = _marked_text(message[key], _MAX_MESSAGES + number)
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            marked["tool_calls"] = [_marked_call(call, number) for call in calls]
        yield marked


def _marked_content(content: object, number: int) -> object:
    if isinstance(content, str):
        return _marked_text(content, number)
    if not isinstance(content, list):
        return content
    return [
        {**part, "text": _marked_text(part["text"], number)}
        if isinstance(part, dict) and isinstance(part.get("text"), str)
        else part
        for part in content
    ]


def _marked_call(call: object, number: int) -> object:
    """Return a tool call with marks around the name of its function."""
    if not isinstance(call, dict):
        return call
    function = call.get("function")
    if isinstance(function, dict):
        return {**call, "function": _marked_call(function, number)}
    if isinstance(call.get("name"), str):
        return {**call, "name": _marked_text(call["name"], number)}
    return call


def _marked_text(text: str, number: int) -> str:
    """Return a text with marks inside the space around it, which templates often remove."""
    inner = text.strip()
    if not inner:
        return text
    start = text.index(inner)
    marks = chr(_FIRST_MARK + 2 * number), chr(_FIRST_MARK + 2 * number + 1)
    return f"{text[:start]}{marks[0]}{inner}{marks[1]}{text[start + len(inner) :]}"


def _after(anchor: str, text: str, start: int, end: int, number: int) -> int:
    """Return the position after the only occurrence of a text of the template."""
    if anchor and text.count(anchor, start, end) != 1:
        raise _UnknownTurnError(f"{anchor!r} is not once around message {number}")
    return text.index(anchor, start, end) + len(anchor) if anchor else start


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
