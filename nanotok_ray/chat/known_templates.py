"""Known templates without generation blocks, and the edits that put the blocks into them.

Each edit replaces a text that occurs once. The edited template renders the same text; the blocks
are those of the templates for training that TRL has, which for Qwen 2.5 begin before the line break
after the role, and for gpt-oss and Muse Glimmer before the header of the answer. A job compares the
texts of both templates: for the first conversations of a source before it starts, and for the
sample of every slice.
"""

from collections.abc import Mapping
from typing import Final

from nanotok_ray.formats import sha256_of

Edits = tuple[tuple[str, str], ...]

_BY_ROLE = (
    "{%% if message['role'] == 'assistant' %%}{%% generation %%}{{ %s }}{%% endgeneration %%}"
    "{%% else %%}{{ %s }}{%% endif %%}"
)


def _by_role(name: str) -> str:
    """Return the output of a variable, in a block if the message is the assistant's."""
    return _BY_ROLE % (name, name)


_GEMMA: Edits = (
    (
        "'\n' + message['content'] | trim + '<end_of_turn>\n' }}",
        "'\n' }}{% set turn = message['content'] | trim + '<end_of_turn>\n' %}" + _by_role("turn"),
    ),
)
_GEMMA_3: Edits = (
    (
        '(first_user_prefix if loop.first else "") }}',
        '(first_user_prefix if loop.first else "") }}\n    {%- set turn -%}',
    ),
    ("{{ '<end_of_turn>\n' }}", "{{ '<end_of_turn>\n' }}{%- endset -%}" + _by_role("turn")),
)
_LLAMA_3: Edits = (
    ("'+ message['content'] | trim + '<|eot_id|>' %}", "' %}"),
    (
        "{{ content }}",
        "{{ content }}{% set turn = message['content'] | trim + '<|eot_id|>' %}" + _by_role("turn"),
    ),
)
_END, _ELSE = "{% endgeneration %}", "{% else %}{{ eos_token }}"
_SAID = "message['content'] + '<|end|>\n'}}"
_PHI_3: Edits = (
    (
        "{{'<|assistant|>\n' + " + _SAID,
        "{{'<|assistant|>\n'}}{% generation %}{{ " + _SAID + _END,
    ),
    (
        _ELSE,
        "{% elif messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}"
        + _END
        + _ELSE,
    ),
)
_QWEN_2_5: Edits = (
    (' or (message.role == "assistant" and not message.tool_calls) %}', " %}"),
    ("+ message.role }}", "+ message.role }}\n        {%- generation %}"),
    ("{%- if message.content %}", "{%- if message.content or not message.tool_calls %}"),
    (
        '{%- elif message.role == "tool" %}',
        '{%- endgeneration %}\n    {%- elif message.role == "tool" %}',
    ),
)
_QWEN_2_5_VL: Edits = (
    (
        "{% if message['content'] is string %}",
        "{% set turn %}{% if message['content'] is string %}",
    ),
    (
        "{% endif %}{% endfor %}{% if add_generation_prompt %}",
        "{% endif %}{% endset %}" + _by_role("turn") + "{% endfor %}{% if add_generation_prompt %}",
    ),
)


def _qwen_3(condition: str, *, has_thought_if_last: bool = False) -> Edits:
    """Return the edits of a template that writes the thought of a turn under a condition."""
    header = "'<|im_start|>' + message.role + '\\n"
    inner: Edits = ()
    if has_thought_if_last:
        inner = (
            (
                "            {%- else %}\n                {{- " + header + "' + content }}",
                "            {%- else %}\n                {{- content }}",
            ),
        )
    return (
        (
            f"{{%- if {condition} %}}",
            f"{{{{- {header}' }}}}\n        {{%- generation %}}\n        {{%- if {condition} %}}",
        ),
        (header + "<think>", "'<think>"),
        *inner,
        (
            "        {%- else %}\n            {{- " + header + "' + content }}",
            "        {%- else %}\n            {{- content }}",
        ),
        (
            '{%- elif message.role == "tool" %}',
            '{%- endgeneration %}\n    {%- elif message.role == "tool" %}',
        ),
    )


_BEGIN = "{% generation %}"
_BEFORE_TOOL = '{%- elif message.role == "tool" %}'
_QWEN_3_INSTRUCT: Edits = (
    (
        "{{- '<|im_start|>' + message.role + '\\n' + content }}",
        "{{- '<|im_start|>' + message.role + '\\n' }}" + _BEGIN + "{{- content }}",
    ),
    (_BEFORE_TOOL, "{%- endgeneration %}" + _BEFORE_TOOL),
)
_NEMOTRON_HEAD = "{{- '<|im_start|>assistant\\n"
_NEMOTRON_END = "'<|im_end|>\\n' }}"
_NEMOTRON_3: Edits = (
    (
        f"            {_NEMOTRON_HEAD}' }}}}\n",
        f"            {_NEMOTRON_HEAD}' }}}}\n            {{%- generation %}}\n",
    ),
    (
        f"                {{{{- {_NEMOTRON_END}\n",
        f"                {{{{- {_NEMOTRON_END}\n            {{%- endgeneration %}}\n",
    ),
    (f"{_NEMOTRON_HEAD}' ~ (content", f"{_NEMOTRON_HEAD}' }}}}{_BEGIN}{{{{- (content"),
    (f"| string | trim) ~ {_NEMOTRON_END}", f"| string | trim) ~ {_NEMOTRON_END}{_END}"),
    (
        f"{_NEMOTRON_HEAD}' ~ c ~ {_NEMOTRON_END}",
        f"{_NEMOTRON_HEAD}' }}}}{_BEGIN}{{{{- c ~ {_NEMOTRON_END}{_END}",
    ),
    (
        f"{_NEMOTRON_HEAD}<|im_end|>\\n' }}}}",
        f"{_NEMOTRON_HEAD}' }}}}{_BEGIN}{{{{- {_NEMOTRON_END}{_END}",
    ),
)
_GPT_OSS: Edits = (
    (
        '{%- if "tool_calls" in message %}',
        '{%- generation %}\n        {%- if "tool_calls" in message %}',
    ),
    (
        "\n    {%- elif message.role == 'tool' -%}",
        "\n        {%- endgeneration %}\n    {%- elif message.role == 'tool' -%}",
    ),
)
_MUSE_GLIMMER: Edits = (
    (
        "{%- if message.get('reasoning_content') -%}",
        "{%- generation %}\n        {%- if message.get('reasoning_content') -%}",
    ),
    (
        "{%- endif -%}\n    {%- endif -%}",
        "{%- endif -%}\n        {%- endgeneration %}\n    {%- endif -%}",
    ),
)
_AFTER_QUERY = "loop.index0 > ns.last_query_index"
_QWEN_3_5 = _qwen_3(_AFTER_QUERY)

_EDITS: Final[Mapping[str, Edits]] = {
    "ecd6ae513fe103f0eb62e8ab5bfa8d0fe45c1074fa398b089c93a7e70c15cfd6": _GEMMA,
    "7de1c58e208eda46e9c7f86397df37ec49883aeece39fb961e0a6b24088dd3c4": _GEMMA_3,
    "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122": _LLAMA_3,
    "dcaee66df77bfbb789ec541fe713218da30225a526f1db97138fc39ee6dc56aa": _PHI_3,
    "78d976a442bcde2f0be15aafbb8e3050e1104f86732266f68403251b89982a90": _PHI_3,
    "cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f": _QWEN_2_5,
    "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb": _QWEN_2_5_VL,
    "a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8": _qwen_3(
        _AFTER_QUERY, has_thought_if_last=True
    ),
    "273d8e0e683b885071fb17e08d71e5f2a5ddfb5309756181681de4f5a1822d80": _QWEN_3_5,
    "a4aee8afcf2e0711942cf848899be66016f8d14a889ff9ede07bca099c28f715": _QWEN_3_5,
    "e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259": _qwen_3(
        f"(preserve_thinking is defined and preserve_thinking is true) or ({_AFTER_QUERY})"
    ),
    "64f85b198065d0fba2a81f37e10ed68161ce2c19a754c7100e67e0ca2ee9c326": _QWEN_3_INSTRUCT,
    "58933db77d3099b4f78c55a38347a72e1ea05b97d6bd8f38775303dc0194e0a9": _NEMOTRON_3,
    "ab7813c3abdd9cb655905a410728b26c7884eca45ddfab8d9f931553485a7862": _NEMOTRON_3,
    "575fb74f54ed264df9047d0ecce3c98938aae953fb4f50356675706264cbb68a": _NEMOTRON_3,
    "82753bef5cedc4932c1ed509b5c9a12be680fd86d1adb65bc3f7398d11c8eebc": _NEMOTRON_3,
    "a4c9919cbbd4acdd51ccffe22da049264b1b73e59055fa58811a99efbd7c8146": _GPT_OSS,
    "cfc67e5f349f37690dfd31ed1f18bc4442a9dd32fe39a648f993cb4eb3cae678": _MUSE_GLIMMER,
    "c3cf9e34abf4f9e36c2d72165aa9c132d3e2a725b6c2586aaa3a8af9d7a81041": _qwen_3(
        f"preserve_thinking is undefined or preserve_thinking is true or {_AFTER_QUERY}"
    ),
}
"""The edits by the sha256 of the template: Gemma, Gemma 3, Llama 3, Phi 3 and 3.5, Qwen 2.5, Qwen
2.5 VL, Qwen 3, 3.5 (two), 3.6, 3 Instruct 2507, Nemotron 3 (four), gpt-oss, Muse Glimmer and
Qwen 3.8."""


def with_blocks(source: str) -> str | None:
    """Return a known template with generation blocks, or None for another one."""
    edits = _EDITS.get(sha256_of(source.encode()))
    if edits is None:
        return None
    for old, new in edits:
        assert source.count(old) == 1, "the sha256 is that of a template with this text"
        source = source.replace(old, new)
    return source
