"""Conversations rendered with any chat template, as Hugging Face's `apply_chat_template` does."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from nanotok_ray.chat import ChatTemplate, Span, overlapping
from nanotok_ray.dialects import MALFORMED, REASONING, Row, reason_of
from nanotok_ray.documents import Documents
from nanotok_ray.errors import ConversationError, NanotokError, TemplateError, TokenizerError
from nanotok_ray.formats import TemplateSettings
from nanotok_ray.tokenizer.chat_template import Form, Result

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""What transformers appends to the field that is continued, to find its end in the text."""


class Encoder(Protocol):
    """What encodes texts that spell special tokens."""

    def encode_recognized(self, documents: Documents) -> tuple[Any, Any]:
        """Return the ids of texts, and their offsets."""

    def recognized_with_offsets(self, text: str) -> tuple[list[int], Sequence[Span]]:
        """Return the ids of a text, and their positions in characters."""


class _Rendered(NamedTuple):
    text: str
    spans: Sequence[Span]
    """The turns of the assistant, if they were asked for."""


class AppliedTemplate:
    """A chat template with the arguments of one call of `apply_chat_template`."""

    def __init__(
        self,
        settings: TemplateSettings,
        form: Form,
        *,
        tools: Sequence[Any] | None,
        variables: Mapping[str, object],
    ) -> None:
        """Compile the template.

        Raises:
            TemplateError: It cannot be compiled.
            TokenizerError: A tool is not a dictionary, or two arguments exclude each other.
        """
        if form.continue_final_message and form.return_assistant_tokens_mask:
            raise TokenizerError(
                "continue_final_message and return_assistant_tokens_mask exclude each other"
            )
        if not all(isinstance(tool, Mapping) for tool in tools or ()):
            raise TokenizerError("tools: each must be a dict, the JSON schema of a function")
        self._form, self._source = form, settings.text
        self._tools = None if tools is None else [*map(plain_data, tools)]
        self._template = ChatTemplate(
            settings, arguments={name: plain_data(value) for name, value in variables.items()}
        )
        self._has_generation = self._template.has_generation

    def result(self, encoder: Encoder, conversation: object) -> Result:
        """Return a conversation in the form that the arguments ask for.

        Raises:
            ConversationError: The template refuses it, or the turns of the assistant cannot be
                located.
            TokenizerError: The mask is asked for, and the ids have no known positions.
        """
        with _conversation_errors():
            rendered = self._rendered(messages_of(conversation))
        if not self._form.tokenize:
            return rendered.text
        if not self._form.return_assistant_tokens_mask:
            ids = encoder.encode_recognized(Documents.from_strings([rendered.text]))[0].tolist()
            return self._form.encoding(ids, [])
        ids, positions = encoder.recognized_with_offsets(rendered.text)
        return self._form.encoding(ids, overlapping(positions, rendered.spans).tolist())

    def _rendered(self, messages: list[Any]) -> _Rendered:
        is_asked = self._form.add_generation_prompt
        if field := self._form.continue_final_message:
            return _Rendered(self._continued(messages, field if isinstance(field, str) else ""), ())
        row = Row(messages, self._tools)
        text = self._template.original(row, add_generation_prompt=is_asked)
        if not self._form.return_assistant_tokens_mask:
            return _Rendered(text, ())
        if self._has_generation:
            found, spans = self._template.render(
                messages, tools=self._tools, add_generation_prompt=is_asked
            )
        else:
            found, spans = self._template.finder.turns(messages, self._tools)
        if not text.startswith(found):
            raise ConversationError(
                "the turns of the assistant cannot be located: without the generation prompt, or "
                "with generation blocks, the template renders another text"
            )
        return _Rendered(text, spans)

    def _continued(self, messages: list[Any], field: str) -> str:
        """Return the text up to the end of a field of the last message."""
        from nanotok_ray.chat import jinja  # noqa: PLC0415 - readers of shards do not have Jinja2

        field = field or "content"
        messages = jinja.messages_for_templates(messages)
        last = dict(messages[-1])
        content = last.get(field)
        if content is None:
            raise ConversationError(f"continue_final_message: the last message has no {field!r}")
        fields = [field]
        if field in REASONING:
            fields = [name for name in REASONING if last.get(name) == content]
        if not any(name in self._source for name in fields):
            raise ConversationError(f"continue_final_message: the template does not name {field!r}")
        if isinstance(content, list | tuple):
            content, last[field] = _tagged_part(content)
        else:
            last |= dict.fromkeys(fields, content + _TAG)
        text = self._template.original(Row([*messages[:-1], last], self._tools))
        if content.strip() not in text or _TAG.strip() not in text:
            raise ConversationError(
                f"continue_final_message: the template does not render {field!r} of the last "
                "message as it is"
            )
        end = text.rindex(_TAG.strip())
        return text[:end] if text.startswith(_TAG, end) else text[:end].rstrip()


def _tagged_part(parts: Sequence[Any]) -> tuple[str, list[Any]]:
    """Return the last text of the parts of a message, and the parts with the tag after it."""
    numbers = [number for number, part in enumerate(parts) if "text" in part]
    if not numbers:
        raise ConversationError("continue_final_message: the last message has no text")
    number = numbers[-1]
    content = parts[number]["text"]
    part = {**parts[number], "text": content + _TAG}
    return content, [*parts[:number], part, *parts[number + 1 :]]


def messages_of(conversation: object) -> list[Any]:
    """Return the messages of a conversation for a template, without keys whose value is None.

    Raises:
        ConversationError: There is none, or a message is not a dictionary.
    """
    given = conversation.get("messages") if isinstance(conversation, Mapping) else conversation
    messages = plain_data(given)
    if not isinstance(messages, list | tuple) or not messages:
        raise ConversationError("the conversation has no messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            kind = type(message).__name__
            raise ConversationError(f"message {number} is a {kind}: expected a dict")
    return [{key: one for key, one in each.items() if one is not None} for each in messages]


def plain_data(value: Any) -> Any:  # noqa: ANN401 - any value that a template can read
    """Return a value made of plain types, as transformers passes it to a template.

    Scalars of numpy, data classes and models of pydantic are converted. Any other object becomes
    the name of its type, because its methods could do anything.

    >>> plain_data({"n": np.int64(7), "image": object()})
    {'n': 7, 'image': '<object>'}
    """
    if isinstance(value, Mapping):
        return {plain_data(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [plain_data(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if value is None or isinstance(value, bool | str | int | float | np.generic):
        return _plain_scalar(value)
    return _plain_object(value)


def _plain_scalar(value: Any) -> Any:  # noqa: ANN401 - a scalar
    """Return a scalar of one of the types of JSON, not of a type derived from it."""
    if isinstance(value, np.generic):
        return plain_data(value.item())
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return value if value is None or isinstance(value, bool) else int.__int__(value)


def _plain_object(value: Any) -> Any:  # noqa: ANN401 - any object
    """Return the fields of an object, or the name of its type."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain_data(getattr(value, name)) for name in names}
    if callable(dump := getattr(value, "model_dump", None)):
        return plain_data(dump())
    return f"<{type(value).__name__}>"


@contextmanager
def _conversation_errors() -> Iterator[None]:
    """Raise what a template refuses as an error of the conversation."""
    try:
        yield
    except (ConversationError, TemplateError):
        raise
    except (NanotokError, *MALFORMED) as error:
        raise ConversationError(reason_of(error)) from error
