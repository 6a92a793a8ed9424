"""A chat template with the settings of a source: the text of a conversation, and its turns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from nanotok_ray import _core
from nanotok_ray.chat.turns import Span, TurnFinder
from nanotok_ray.dialects import JsonObject, Row
from nanotok_ray.errors import SourceError, TemplateError
from nanotok_ray.formats import TemplateSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedText:
    """The text of a conversation, with spans in characters."""

    text: str
    turns: Sequence[Span]
    """The turns of the assistant."""
    trained: Sequence[Span]
    """What is trained on."""


class ChatTemplate:
    """A chat template, rendered with Jinja2: the plain implementation of the core's.

    >>> settings = TemplateSettings(
    ...     text="{% for message in messages %}<{{ message.role }}>{{ message.content }};"
    ...     "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
    ...     special_tokens={},
    ... )
    >>> messages = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    >>> ChatTemplate(settings).conversation(Row(messages, None))
    RenderedText(text='<user>1+1;<assistant>2;', turns=[(21, 23)], trained=[(21, 23)])
    """

    def __init__(
        self, settings: TemplateSettings, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Store the settings; `arguments` are used in the place of those of the settings."""
        self.settings = settings
        self._source = settings.training_text or settings.text
        self._arguments = json.loads(settings.arguments) if arguments is None else arguments
        self.finder = TurnFinder(self)

    @cached_property
    def has_generation(self) -> bool:
        """Whether blocks of the template say what the assistant wrote."""
        from nanotok_ray.chat import jinja  # noqa: PLC0415 - readers of shards do not have Jinja2

        return jinja.has_generation(self._source)

    def core(self) -> _core.ChatTemplate:
        """Return the template of the core.

        Raises:
            TemplateError: The core does not support the template.
        """
        return _core.ChatTemplate(self._source, dict(self.settings.special_tokens), self.now)

    @property
    def is_original(self) -> bool:
        """Whether no other template is rendered in its place."""
        return self.settings.training_text is None

    @property
    def now(self) -> int:
        """The time of `strftime_now` in seconds since 1970."""
        return seconds_of(self.settings.date)

    def render(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
    ) -> tuple[str, list[Span]]:
        """Return the text of messages, and the spans of generation blocks.

        Raises:
            SourceError: The template refuses the messages.
        """
        return self._rendered(
            self._source, messages, tools=tools, add_generation_prompt=add_generation_prompt
        )

    def original(self, row: Row, *, add_generation_prompt: bool = False) -> str:
        """Return the text of a conversation by the template itself, not by that for training.

        Raises:
            SourceError: The template refuses the conversation.
        """
        return self._rendered(
            self.settings.text,
            row.messages,
            tools=row.tools,
            add_generation_prompt=add_generation_prompt,
        )[0]

    def conversation(self, row: Row) -> RenderedText:
        """Return the text of a conversation with its turns and with what is trained on.

        Raises:
            SourceError: The template refuses the conversation, or what is trained on cannot be
                located.
        """
        text, turns = self.finder.turns(row.messages, row.tools)
        return RenderedText(text=text, turns=turns, trained=self._trained(row, text, turns))

    def _trained(self, row: Row, text: str, turns: Sequence[Span]) -> Sequence[Span]:
        trained = turns
        if self.settings.train_on == "all":
            trained = [(0, len(text))]
        elif self.settings.train_on == "last":
            number = sum(message["role"] == "assistant" for message in row.messages)
            if len(turns) != number:
                raise SourceError(
                    f"the last turn is not known: the template has {len(turns)} generation blocks "
                    f"for {number} messages of the assistant"
                )
            trained = turns[-1:]
        return [*self._without_untrained(row, text, trained)]

    def _without_untrained(self, row: Row, text: str, spans: Sequence[Span]) -> Iterator[Span]:
        untrained: list[Span] = []
        if "reasoning_content" in self.settings.untrained:
            untrained += self.finder.reasoning(row.messages, row.tools, text)
        if "tool_calls" in self.settings.untrained:
            untrained += self.finder.calls(row.messages, row.tools, text)
        untrained.sort()
        for start, end in spans:
            position = start
            for first, last in untrained:
                if first < end and last > position:
                    if first > position:
                        yield position, first
                    position = max(position, last)
            if position < end or start == end:
                yield position, end

    def _rendered(
        self,
        source: str,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[Any] | None,
        add_generation_prompt: bool,
    ) -> tuple[str, list[Span]]:
        from nanotok_ray.chat import jinja  # noqa: PLC0415 - readers of shards do not have Jinja2

        context = {
            **self._arguments,
            "messages": jinja.messages_for_templates([*messages]),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        special = self.settings.special_tokens
        try:
            rendered = jinja.render(source, context, special_tokens=special, now=self.now)
        except TemplateError as error:
            raise SourceError(f"refused by the chat template: {error}") from error
        return rendered.text, rendered.spans


def seconds_of(date: str | None) -> int:
    """Return the first second of a date since 1970, or 0 for None.

    >>> seconds_of("1970-01-02")
    86400
    """
    if date is None:
        return 0
    return int(datetime.fromisoformat(date).replace(tzinfo=timezone.utc).timestamp())


class CoreTemplate:
    """A template of the core as a template that turns are located with; its steps are bounded."""

    def __init__(self, core: _core.ChatTemplate, settings: TemplateSettings) -> None:
        """Store the template."""
        self._core, self._arguments = core, json.loads(settings.arguments)
        self.has_generation = core.has_generation

    def render(
        self,
        messages: Sequence[JsonObject],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
    ) -> tuple[str, list[Span]]:
        """Return the text of messages, and the spans of generation blocks.

        Raises:
            SourceError: The template refuses the messages, or the bounds refuse the template.
        """
        context = {
            **self._arguments,
            "messages": [*messages],
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._core.render(json.dumps(context).encode())
        except TemplateError as error:
            raise SourceError(f"refused by the chat template: {error}") from error


def check_template(template: ChatTemplate) -> None:
    """Check that a template can be compiled, and that it has what it names.

    Raises:
        TemplateError: It cannot, or its template for training has no blocks.
    """
    from nanotok_ray.chat import jinja  # noqa: PLC0415 - readers of shards do not have Jinja2

    source, settings = template.settings.text, template.settings
    names = jinja.variables_of(source)
    given = {*settings.special_tokens, *json.loads(settings.arguments)}
    missing = [name for name in _TOKENS if name in names and name not in given]
    if missing:
        raise TemplateError(
            f"the chat template names {missing[0]}, which the configuration of the tokenizer does "
            f'not have; set template_args = {{{missing[0]} = "..."}}'
        )
    if "strftime_now" in names and settings.date is None:
        raise TemplateError(
            "the chat template prints the date of today; set template_date, so that the same "
            "conversation has the same ids on another day"
        )
    if settings.training_text is not None and not template.has_generation:
        raise TemplateError("the template for training has no {% generation %} blocks")


_TOKENS = ("bos_token", "eos_token")
