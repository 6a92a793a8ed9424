"""Chat templates in the style of known families, and tokenizers with their special tokens."""

from functools import lru_cache

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

CHATML = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {%- for tool in tools %}
        {{- tool | tojson + '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if message.reasoning_content and loop.last %}
            {{- '<think>\\n' + message.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- if message.content is string %}
            {{- message.content }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>' + message.content }}
        {{- '</tool_response><|im_end|>\\n' }}
    {%- elif not (tools and loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""Qwen's form; the thought of earlier turns is left out."""

HEADERS = """
{%- for message in messages %}
    {%- if loop.first %}{{- bos_token }}{% endif %}
    {{- '<|start|>' + message.role + '<|header|>\\n\\n' + message.content | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|header|>\\n\\n' }}
{%- endif %}
"""
"""Llama 3's form, which removes the space around a content."""

INST = """
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + message.content + ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content + eos_token }}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported') }}
    {%- endif %}
{%- endfor %}
"""
"""Mistral's form, without a generation prompt."""

BLOCKS = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{ message.content + '<|im_end|>' }}{% endgeneration %}
    {%- else %}
        {{- message.content + '<|im_end|>' }}
    {%- endif %}
    {{- '\\n' }}
{%- endfor %}
"""
"""ChatML with blocks that end before the line break."""

FORGETFUL = """
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content[:1] + '|' + message.content }}
    {{- '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""
"""A template that reads the content, so that only prefixes locate its turns."""

AT_END = (
    "{% for message in messages %}{{ message.role + ':' + message.content }}{% endfor %}"
    "{% if not add_generation_prompt %}</s>{% endif %}"
)
"""A template whose turns cannot be located: what ends an answer is only at the end."""

OPEN = """
{%- for message in messages %}
    {{- '<|' + message.role + '|>' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<call>' + call.function.name + call.function.arguments | tojson + '</call>' }}
    {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{% endif %}
"""
"""A template without an end of turns, as GLM's."""

SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start|>", "<|header|>", "<|eot|>")


@lru_cache
def byte_tokenizer(*, normalized: bool = False) -> str:
    """Return the tokenizer.json of bytes, with a few merges and the special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: number for number, char in enumerate(alphabet)}
    merges = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("a", "n"), ("i", "s")]
    vocab |= {"".join(pair): 256 + number for number, pair in enumerate(merges)}
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges))
    if normalized:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    made.add_tokens([AddedToken(name, normalized=False) for name in ("<think>", "</think>")])
    return made.to_str()
