"""The chat template: a conversation as text, in Jinja, for `apply_chat_template` of Hugging Face.

What it renders has the ids of `render_conversation` once `tokenizers` has cut it, and with
`add_generation_prompt` those of `render_for_completion`. Its `generation` blocks are what the
mask holds, each as long as can be: a block that ends in the middle of a text can lose bytes there.
It refuses what nanochat refuses, for the same reason. Takes a model's special tokens alone;
docs/formats.md says where text cannot carry what ids can.
"""

from typing import Final

from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.model import Model

CHAT_TEMPLATE: Final = r"""
{%- if not messages -%}
  {{- raise_exception('the conversation has no messages') -}}
{%- endif -%}
{%- set has_system = messages[0]['role'] == 'system' -%}
{%- set turns = messages[1:] if has_system else messages -%}
{%- if has_system and (not turns or turns[0]['role'] != 'user') -%}
  {{- raise_exception('System message must be followed by a user message') -}}
{%- endif -%}
{%- if has_system and messages[0]['content'] is not string -%}
  {{- raise_exception('System messages are simply expected to be strings') -}}
{%- endif -%}
{%- if add_generation_prompt and turns[-1]['role'] == 'assistant' -%}
  {{- raise_exception('Last message must be from the user to ask for the assistant') -}}
{%- endif -%}
{{- '<|bos|>' -}}
{%- for message in turns -%}
  {%- set number = loop.index0 -%}
  {%- set expected = 'assistant' if number % 2 else 'user' -%}
  {%- set content = message['content'] -%}
  {%- if message['role'] != expected -%}
    {{- raise_exception('Message ' ~ number ~ ' is from ' ~ message['role']
                        ~ ' but should be from ' ~ expected) -}}
  {%- elif expected == 'user' -%}
    {%- if content is not string -%}
      {{- raise_exception('User messages are simply expected to be strings') -}}
    {%- endif -%}
    {{- '<|user_start|>' -}}
    {%- if has_system and loop.first -%}
      {{- messages[0]['content'] ~ '\n\n' -}}
    {%- endif -%}
    {{- content ~ '<|user_end|>' -}}
  {%- else -%}
    {{- '<|assistant_start|>' -}}
    {%- set said = namespace(text='') -%}
    {%- if content is string -%}
      {%- set said.text = content -%}
    {%- elif content is defined and content is sequence and content is not mapping -%}
      {%- for part in content -%}
        {%- if part['text'] is not string -%}
          {{- raise_exception('The text of a part must be a string') -}}
        {%- elif part['type'] == 'text' -%}
          {%- set said.text = said.text ~ part['text'] -%}
        {%- elif part['type'] == 'python' -%}
          {%- set said.text = said.text ~ '<|python_start|>' ~ part['text'] ~ '<|python_end|>' -%}
        {%- elif part['type'] == 'python_output' -%}
          {%- if said.text -%}
            {%- generation -%}{{- said.text -}}{%- endgeneration -%}
            {%- set said.text = '' -%}
          {%- endif -%}
          {{- '<|output_start|>' ~ part['text'] ~ '<|output_end|>' -}}
        {%- else -%}
          {{- raise_exception('Unknown part type: ' ~ part['type']) -}}
        {%- endif -%}
      {%- endfor -%}
    {%- else -%}
      {{- raise_exception('Unknown content type') -}}
    {%- endif -%}
    {%- generation -%}{{- said.text ~ '<|assistant_end|>' -}}{%- endgeneration -%}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|assistant_start|>' -}}
{%- endif -%}
""".strip()
"""Written so that it renders alike whether or not `trim_blocks` and `lstrip_blocks` are set."""


def to_chat_template(model: Model) -> str | None:
    r"""Give the template; None if the model lacks one of nanochat's special tokens.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=(),
    ...               special_tokens={"<|bos|>": 256})
    >>> to_chat_template(model) is None
    True
    """
    has_all = all(name in model.special_tokens for name in SPECIAL_TOKENS)
    return CHAT_TEMPLATE if has_all else None
