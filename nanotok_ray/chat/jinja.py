"""Chat templates in Jinja, rendered with Jinja2 in the environment of transformers.

This is the plain implementation of the core's `ChatTemplate`. It checks samples of what that one
renders.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import ext, meta, nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nanotok_ray.dialects import REASONING
from nanotok_ray.errors import TemplateError

Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rendered:
    """Rendered text, and the spans of the bodies of generation blocks in characters."""

    text: str
    spans: Spans


class _Generation(ext.Extension):
    """The tag `generation`: passes the body of the block to the variable `nanotok_record`."""

    tags = {"generation"}  # noqa: RUF012 - Jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.CallBlock:
        """Return the call of `_record` with the body of the block."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_record"), [], [], body, lineno=line)

    @jinja2.pass_context
    def _record(self, context: jinja2.runtime.Context, caller: Callable[[], str]) -> str:
        body = caller()
        context.parent["nanotok_record"](body)
        return body


class _Namespace(jinja2.utils.Namespace):
    """A namespace without private attributes, through which a template could leave the sandbox."""

    def __init__(*args: Any, **values: Any) -> None:  # noqa: ANN401 - `self` may be a value
        for name in dict(*args[1:], **values):
            _check_name(name)
        jinja2.utils.Namespace.__init__(*args, **values)

    def __setitem__(self, name: str, value: object) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"attribute {name!r} of a namespace")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@lru_cache(maxsize=16)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["namespace"] = _Namespace
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"line {error.lineno} of the template: {error.message}") from error


def render(
    source: str,
    context: Mapping[str, Any],
    *,
    special_tokens: Mapping[str, str] | None = None,
    now: int = 0,
) -> Rendered:
    """Render a template with these variables, as transformers does.

    `now` is the time of `strftime_now`: seconds since 1970, printed in UTC.

    Raises:
        TemplateError: The source is not a template, or the template refuses the context.

    >>> render("{% generation %}{{ messages[0].content }}{% endgeneration %}!",
    ...        {"messages": [{"content": "Hi"}]})
    Rendered(text='Hi!', spans=[(0, 2)])
    """
    blocks: list[str] = []
    spans: Spans = []

    def record(body: str) -> None:
        start = sum(map(len, blocks))
        spans.append((start, start + len(body)))

    defaults = {"tools": None, "documents": None, "add_generation_prompt": False}
    functions = {
        "nanotok_record": record,
        "strftime_now": datetime.fromtimestamp(now, timezone.utc).strftime,
    }
    variables = {**functions, **defaults, **(special_tokens or {}), **context}
    template = _compiled(source)
    try:
        for block in template.generate(variables):
            blocks.append(block)  # noqa: PERF402 - `record` reads the blocks so far
    except Exception as error:
        raise TemplateError(f"{type(error).__name__}: {error}") from error
    return Rendered("".join(blocks), spans)


def messages_for_templates(messages: list[Any]) -> list[Any]:
    """Return messages as transformers passes them to templates.

    Members that are None are dropped, and the reasoning of a message has the names
    `reasoning_content` and `thinking`.

    >>> messages_for_templates([{"role": "assistant", "reasoning": "So", "name": None}])
    [{'thinking': 'So', 'role': 'assistant', 'reasoning': 'So', 'reasoning_content': 'So'}]
    """
    return [_normalized(message) if isinstance(message, dict) else message for message in messages]


def _normalized(message: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in message.items() if value is not None}
    reasoning = next((kept[name] for name in REASONING if name in kept), None)
    if reasoning is None:
        return kept
    return {"thinking": reasoning, **kept, "reasoning_content": reasoning}


def has_generation(source: str) -> bool:
    """Return whether a template has `{% generation %}` blocks.

    Raises:
        TemplateError: The source is not a template.

    >>> has_generation("{%- generation %}a{% endgeneration %}"), has_generation("generation")
    (True, False)
    """
    tree = _compiled(source).environment.parse(source)
    blocks = tree.find_all(nodes.ExtensionAttribute)
    return any(block.identifier == _Generation.identifier for block in blocks)


def variables_of(source: str) -> set[str]:
    """Return the names of the variables and functions that a template does not define itself.

    Raises:
        TemplateError: The source is not a template.

    >>> sorted(variables_of("{{ bos_token }}{% for one in messages %}{{ one }}{% endfor %}"))
    ['bos_token', 'messages']
    """
    return meta.find_undeclared_variables(_compiled(source).environment.parse(source))
