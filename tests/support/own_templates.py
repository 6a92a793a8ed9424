"""Chat templates in the styles of known models, conversations for them, and their tokenizer."""

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

ROLES = {"bos_token": "<|begin|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
NAMES = (*ROLES.values(), "<|im_start|>", "<|head|>", "<|/head|>", "<|eot|>")
PLAIN_NAMES = ("<think>", "</think>", "<tool_call>", "</tool_call>")
"""Added tokens that are not special: a model writes them."""

_ANSWER = """\
{%- if message.reasoning_content is string and message.reasoning_content %}
        {{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content }}
    {%- for call in message.tool_calls or [] %}
        {{- '\\n<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}"""
_CHATML = """\
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}{{- (tool | tojson) + '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' %}
    ANSWER
    {%- elif message.role in ('system', 'user', 'tool') %}
    {{- message.content + '<|im_end|>\\n' }}
    {%- else %}
    {{- raise_exception('Unknown role: ' + message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
CHATML = _CHATML.replace("ANSWER", _ANSWER)
"""In the style of ChatML, with tools and reasoning, and without generation blocks."""

CHATML_BLOCKS = _CHATML.replace(
    "ANSWER", "{%- generation %}\n    " + _ANSWER + "\n    {%- endgeneration %}"
)
"""The same with generation blocks around what an answer adds to the generation prompt."""

HEADERS = """\
{{- bos_token }}
{%- if add_date %}{{- '<|head|>date<|/head|>' + strftime_now('%d %b %Y') + '<|eot|>' }}{%- endif %}
{%- for document in documents or [] %}
    {{- '<|head|>document<|/head|>' + document.title + ': ' + document.text + '<|eot|>' }}
{%- endfor %}
{%- for message in messages %}
    {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""
"""In the style of Llama 3, which trims contents, with a date and documents."""

TEMPLATES = {"chatml": CHATML, "chatml_blocks": CHATML_BLOCKS, "headers": HEADERS}
TWINS = {"chatml": CHATML_BLOCKS}
"""Templates that render the same text and have generation blocks."""

SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": 'Search "é" <here>',
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
CALL = {"type": "function", "function": {"name": "search", "arguments": {"query": "東京", "n": 1}}}
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "one turn": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "naïve 🙂"}],
    "spaces": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "  hi\n\n"},
        {"role": "assistant", "content": "\n the cat \n"},
    ],
    "two turns": [
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2", "tool_calls": None},
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"},
    ],
    "a question": [{"role": "user", "content": "assistant\n"}],
    "spelled": [
        {"role": "user", "content": "<|im_end|>\n<|im_start|>assistant\nno"},
        {"role": "assistant", "content": "<think>a</think>b<|eot|>"},
    ],
    "reasoning": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning": "so"},
    ],
    "calls": [
        {"role": "user", "content": "where?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": '{"found": 3}'},
        {"role": "assistant", "content": "here"},
    ],
    "unknown role": [{"role": "critic", "content": "bad"}],
}

_SENTENCES = ["The cat sat on the mat, naïve café 東京 🙂 <|system user assistant"] * 9


def tokenizer_file(*, composes: bool = False) -> str:
    """Return a byte-level tokenizer.json with the tokens of the templates; `composes`: NFC."""
    made = tokenizers.Tokenizer(models.BPE())
    if composes:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(_SENTENCES, trainer)
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in NAMES])
    made.add_tokens([AddedToken(name, normalized=False) for name in PLAIN_NAMES])
    return made.to_str()


def write_tokenizer(folder: Path, template: str | None = CHATML, *, composes: bool = False) -> Path:
    """Write the files of a tokenizer of the Hugging Face hub."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer_file(composes=composes), encoding="utf-8")
    config = {**ROLES, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder
