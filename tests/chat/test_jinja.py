"""Chat templates: the core's `ChatTemplate` against Jinja2 in the environment of transformers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray._core import ChatTemplate
from nanotok_ray.chat import jinja
from nanotok_ray.errors import TemplateError, TokenizerError

NOW = 1_709_209_296
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.last < 0 and message.role == "user" and message.content is string %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last and thought %}
            {{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' }}
            {%- if call.function.arguments is string %}
                {{- call.function.arguments }}
            {%- else %}
                {{- call.function.arguments | tojson }}
            {%- endif %}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
        {%- endgeneration %}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user\\n' if loop.first or loop.previtem.role != 'tool' }}
        {{- '<tool_response>' ~ message.content ~ '</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or loop.nextitem.role != 'tool' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
HEADERS = """\
{{- bos_token }}
{%- if not date is defined %}{% set date = strftime_now("%d %b %Y") %}{% endif %}
{%- for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('unknown role ' ~ message.role) }}
    {%- endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message['role'] == 'assistant' %}
{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}
    {%- else %}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{{ 'Today: ' + date }}
{%- if tools is not none %}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
    {%- endfor %}
{%- endif %}
"""
INSTRUCTIONS = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- set users = rest | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in rest %}
    {%- if (message.role == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("roles must alternate") }}
    {%- endif %}
    {%- if message.role == "user" %}
        {%- if system is defined and message == users[-1] %}
            {{- "[INST] " + system + "\\n\\n" + message.content + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message.content + "[/INST]" }}
        {%- endif %}
    {%- else %}
        {%- generation -%}
            {{ " " + message.content|trim + eos_token }}
        {%- endgeneration %}
    {%- endif %}
{%- endfor %}
"""
TURNS = """\
{{ bos_token }}
{%- macro text_of(content) -%}
    {%- if content is string -%}
        {{ content | trim }}
    {%- elif content is iterable -%}
        {%- for part in content -%}
            {%- if part.type == 'text' -%}{{ part['text'] | trim }}{%- else -%}<image>{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("no content") }}
    {%- endif -%}
{%- endmacro -%}
{% for message in messages %}
    {% set role = 'model' if message.role == 'assistant' else message.role %}
<start_of_turn>{{ role }}
    {% if role == 'model' %}
        {% generation %}
{{ text_of(message.content) }}<end_of_turn>
        {% endgeneration %}
    {% else %}
{{ text_of(message.content) }}<end_of_turn>
    {% endif %}
{% endfor %}
{{- '<start_of_turn>model\\n' if add_generation_prompt }}
"""
TEMPLATES = {"chatml": CHATML, "headers": HEADERS, "instructions": INSTRUCTIONS, "turns": TURNS}

texts = st.text(
    st.sampled_from("ab \n\t'\"\\<>&{}%é日🙂\u00a0\u1680\x1c\x85"), max_size=8
) | st.sampled_from(
    ["<think>\nx\n</think>\n\ny", "</think>", "{{ 1 }}", "{% x %}", "<|im_end|>", ""]
)
numbers = (
    st.integers(-(2**40), 2**40) | st.floats(1e-4, 1e12) | st.sampled_from([0, -1.0, 1e16, 1e-7])
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
parts = st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, texts) | st.just({"type": "image"}),
    max_size=3,
)
calls = st.lists(
    st.builds(
        lambda name, arguments: {"function": {"name": name, "arguments": arguments}},
        texts,
        st.dictionaries(texts, values, max_size=3) | texts,
    ),
    max_size=2,
)
messages_of = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
        optional={
            "content": texts | parts | st.none(),
            "tool_calls": calls | st.none(),
            "reasoning_content": texts | st.none(),
            "thinking": texts | st.none(),
        },
    ),
    max_size=5,
)
contexts = st.fixed_dictionaries(
    {"messages": messages_of},
    optional={
        "tools": st.lists(st.dictionaries(texts, values, max_size=3), max_size=2) | st.none(),
        "add_generation_prompt": st.booleans(),
        "enable_thinking": st.booleans(),
    },
)


def by_core(source: str, context: dict[str, Any]) -> tuple[str, list[tuple[int, int]]] | None:
    try:
        return ChatTemplate(source, TOKENS, NOW).render(json.dumps(context).encode())
    except TemplateError:
        return None


def by_jinja2(source: str, context: dict[str, Any]) -> tuple[str, list[tuple[int, int]]] | None:
    messages = jinja.messages_for_templates(context["messages"])
    context = {**context, "messages": messages}
    try:
        rendered = jinja.render(source, context, special_tokens=TOKENS, now=NOW)
    except TemplateError:
        return None
    return rendered.text, rendered.spans


CONVERSATION = [
    {"role": "user", "content": " What's 2 + 2? \u2028"},
    {"role": "assistant", "content": "<think>\nSo\n</think>\n\n4 日本 ", "name": None},
    {"role": "user", "content": "Add <3>"},
    {"role": "assistant", "content": "7", "reasoning": "Hm\n"},
]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("has_system", [False, True])
def test_a_conversation_is_rendered_with_a_span_for_each_turn_of_the_assistant(
    name: str, has_system: bool
) -> None:
    messages = [{"role": "system", "content": "Be brief."}] * has_system + CONVERSATION
    context = {"messages": messages, "tools": [{"name": "f", "x": [1.0, None, "é"]}]}
    rendered = by_core(TEMPLATES[name], context)
    assert rendered is not None
    assert rendered == by_jinja2(TEMPLATES[name], context)
    text, spans = rendered
    bodies = [text[start:end] for start, end in spans]
    assert len(bodies) == 2
    assert "4 日本" in bodies[0]
    assert "7" in bodies[1]


@given(st.sampled_from(sorted(TEMPLATES)), contexts)
def test_every_conversation_is_rendered_or_refused_as_by_jinja2(
    name: str, context: dict[str, Any]
) -> None:
    mine, other = by_core(TEMPLATES[name], context), by_jinja2(TEMPLATES[name], context)
    assert mine == other


VARIABLES = ("text", "words", "map", "number", "real", "nothing", "missing")
operands = st.sampled_from([*VARIABLES, "'a'", "''", "3", "-2", "1.5", "[1, 'b']", "true"])
METHODS = (
    "strip()", "lstrip('a')", "rstrip()", "split()", "split('a')", "split('a', 1)",
    "split(none, 1)",
    "rsplit('b', 1)", "splitlines()", "splitlines(true)", "upper()", "lower()", "startswith('a')",
    "endswith(('b', 'a'))", "replace('a', 'bb')", "replace('', '-')", "find('b')", "rfind('b')",
    "count('a')", "title()", "capitalize()", "isdigit()", "isalpha()", "isspace()",
    "partition('b')",
    "rpartition('a')", "removeprefix('a')", "removesuffix('b')", "join(words)", "get('a')",
    "get('q', 1)", "keys()", "values()", "items()", "a", "q", "items",
)  # fmt: skip
FILTERS = (
    "trim", "upper", "lower", "length", "list", "first", "last", "join(',')", "string", "tojson",
    "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "int",
    "float",
    "default('d')", "default('d', true)", "reverse", "sort", "unique", "map('upper')", "items",
    "select", "reject('string')", "map('string')", "sum", "abs", "dictsort", "replace('a', 'b')",
    "round", "capitalize", "safe", "max", "min", "count", "batch(2)", "indent",
)  # fmt: skip
TESTS = (
    "defined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
    "boolean", "true", "false", "undefined", "odd", "in words", "in map", "sameas none", "eq 3",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "//", "%", "~", "and", "or")
SUBSCRIPTS = ("[0]", "[-1]", "[9]", "[1:]", "[:-1]", "[::-1]", "['a']", "['items']")


def _longer(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({}).{}".format, inner, st.sampled_from(METHODS)),
        st.builds("({})|{}".format, inner, st.sampled_from(FILTERS)),
        st.builds("({}) is {}".format, inner, st.sampled_from(TESTS)),
        st.builds("({}) {} ({})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("({}){}".format, inner, st.sampled_from(SUBSCRIPTS)),
        st.builds("({}) if ({}) else ({})".format, inner, inner, inner),
    )


@given(
    st.recursive(operands, _longer, max_leaves=4),
    st.fixed_dictionaries(
        {
            "text": texts,
            "words": st.lists(st.sampled_from(["a", "b", "B", "", " c"]), max_size=3),
            "map": st.dictionaries(st.sampled_from(["a", "items", "k"]), values, max_size=3),
            "number": st.integers(-9, 999),
            "real": st.sampled_from([0.5, 1.0, 2.25, 1000.0]),
            "nothing": st.none(),
        }
    ),
)
def test_an_expression_has_the_value_of_jinja2_or_is_refused(
    expression: str, variables: dict[str, Any]
) -> None:
    context = {"messages": [], **variables}
    source = f"{{{{ {expression} }}}}"
    mine, other = by_core(source, context), by_jinja2(source, context)
    # Python refuses more operations than the engine: an order or a loop of other types.
    assert mine == other or mine is None or other is None


def test_wrong_templates_and_contexts_are_errors_with_the_line() -> None:
    with pytest.raises(TemplateError, match=r"syntax error: .* \(line 2\)"):
        ChatTemplate("a\n{% if %}", {}, 0)
    template = ChatTemplate("{% if true %}\n{{ raise_exception('no ' ~ role) }}{% endif %}", {}, 0)
    assert not template.has_generation
    with pytest.raises(TokenizerError, match=r"^no user \(line 2\)$"):
        template.render(b'{"role": "user"}')
    with pytest.raises(TemplateError, match="not JSON"):
        template.render(b"{")
    with pytest.raises(TemplateError, match=r"^line 1 of the template: "):
        jinja.render("{% if %}", {})
    with pytest.raises(TemplateError, match="SecurityError"):
        jinja.render("{% set ns = namespace(_a=1) %}", {})
    assert ChatTemplate(CHATML, {}, 0).has_generation
