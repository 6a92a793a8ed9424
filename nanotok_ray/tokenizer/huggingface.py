"""Writes tokenizer.json and tokenizer_config.json for Hugging Face, with the chat template."""

import codecs
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer.model import Model

_PARTS: Final = re.compile(
    r"""
      \\[pPx]\{[^}]*\} | \\x[0-9A-Fa-f]{2} | \\.                # what a backslash begins
    | \[\^?\]?(?: \\. | \[(?:\\.|[^\]\\])*\] | [^\]\\] )*\]     # a class, or one in another
    | \{\d+(?:,\d*)?\}\+?                                       # an interval, maybe possessive
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_INTERVAL: Final = re.compile(r"\{\d.*\}\+?")


PUBLISHED_PATTERNS: Final[Mapping[str, str]] = {
    "gpt4": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "r50k": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
}
"""Spellings of named patterns that Llama 3 and GPT-2 use; they split every text in the same way.

tokenizers 1.0.0rc3 has splitters for a few published spellings and does not encode with any other.
o200k is such a spelling itself. cl100k has none: it makes one span of white space at the end of a
text, where Llama 3's pattern can make two. nanochat's would be Llama 3's with two digits in place
of three, but rc3 accepts that spelling and splits after three digits: an error is better than
wrong ids.
"""

PATTERN_NAME: Final = "nanotok_pattern"
"""Key of a Split that names the pattern; `tokenizers` ignores the key."""


def to_huggingface_split(pattern: str) -> dict[str, Any]:
    """Return the Split of a pattern in the form that `tokenizers` reads.

    >>> to_huggingface_split(PATTERNS["r50k"])["nanotok_pattern"]
    'r50k'
    """
    name = next((name for name in PUBLISHED_PATTERNS if PATTERNS[name] == pattern), None)
    if name is None:
        return _split_by(with_atomic_intervals(pattern))
    return {**_split_by(PUBLISHED_PATTERNS[name]), PATTERN_NAME: name}


def _split_by(regex: str) -> dict[str, Any]:
    pattern = {"Regex": regex}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def with_atomic_intervals(pattern: str) -> str:
    r"""Return the pattern with each possessive interval rewritten as an atomic group.

    >>> with_atomic_intervals(r"(b[\]}]{2}+){1,3}+|\p{N}{1,2}")
    '(?>(b(?>[\\]}]{2})){1,3})|\\p{N}{1,2}'
    """
    parts: list[str] = []
    opened: list[int] = []
    atom = 0  # position in `parts` of the atom that a quantifier would repeat
    for part in _PARTS.findall(pattern):
        if _INTERVAL.fullmatch(part) and part.endswith("+"):
            parts[atom:] = ["(?>" + "".join(parts[atom:]) + part[:-1] + ")"]
            continue
        if part == "(":
            opened.append(len(parts))
        elif part == ")":
            atom = opened.pop() if opened else len(parts)
        elif not _is_quantifier(part):
            atom = len(parts)
        parts.append(part)
    return "".join(parts)


def _is_quantifier(part: str) -> bool:
    return part in {"*", "+", "?"} or _INTERVAL.fullmatch(part) is not None


def to_huggingface_file(model: Model) -> bytes:
    """Return the bytes of tokenizer.json.

    Raises:
        TokenizerError: Two ids have the same bytes, or special tokens leave ids unused.
    """
    split = to_huggingface_split(model.pattern)
    names = {number: spell(token) for token, number in model.ranks().items()}
    vocab = {name: number for number, name in names.items()}
    if model.continuations:  # tokenizers would number special tokens after all others
        every = vocab | dict(model.special_tokens)
        vocab = {name: every[name] for name in sorted(every, key=every.__getitem__)}
    contents = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(model),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, {**_BYTE_LEVEL, "use_regex": False}],
        },
        "post_processor": None,
        "decoder": {**_BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            "vocab": vocab,
            "merges": [[names[left], names[right]] for left, right in model.merges],
        },
    }
    return json.dumps(contents, ensure_ascii=False, indent=1).encode() + b"\n"


_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def _added_tokens(model: Model) -> list[dict[str, Any]]:
    first = len(model.tokens)
    if not model.continuations and list(model.special_tokens.values()) != list(
        range(first, model.num_ids)
    ):
        raise TokenizerError(
            f"special tokens leave ids between {first} and {model.num_ids - 1} unused: "
            "tokenizer.json numbers them without gaps"
        )
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": number, "content": name, **flags, "special": True}
        for name, number in model.special_tokens.items()
    ]


def _alphabet() -> list[str]:
    """Return the character of each byte: the byte itself if printable, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(value if value in printable else next(substitutes)) for value in range(256)]


_CHARACTERS = _alphabet()


def spell(token: bytes) -> str:
    """Return the spelling of a token in text files: one character for each byte.

    >>> spell(b" the")
    'Ġthe'
    """
    return "".join([_CHARACTERS[value] for value in token])


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
"""The template renders the same text whether or not `trim_blocks` and `lstrip_blocks` are set."""


def to_chat_template(model: Model) -> str | None:
    r"""Return the chat template, or None if the model lacks one of nanochat's special tokens.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=(),
    ...               special_tokens={"<|bos|>": 256})
    >>> to_chat_template(model) is None
    True
    """
    has_all = all(name in model.special_tokens for name in SPECIAL_TOKENS)
    return CHAT_TEMPLATE if has_all else None


_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "bos_token": ("<|bos|>", "<|endoftext|>"),
    "eos_token": ("<|assistant_end|>", "<|endoftext|>", "<|bos|>"),
    "pad_token": ("<|bos|>", "<|endoftext|>"),
}
"""Candidates for each role; the first special token that the tokenizer has is used."""


def to_huggingface_config(model: Model) -> bytes:
    r"""Return the bytes of tokenizer_config.json.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=(),
    ...               special_tokens={"<|bos|>": 256})
    >>> json.loads(to_huggingface_config(model))["eos_token"]
    '<|bos|>'
    """
    roles = token_roles(model)
    contents: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **roles,
        "additional_special_tokens": [
            name for name in model.special_tokens if name not in roles.values()
        ],
        "added_tokens_decoder": {
            str(number): {"content": name, **_ADDED_TOKEN}
            for name, number in model.special_tokens.items()
        },
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    template = to_chat_template(model)
    if template is not None:
        contents["chat_template"] = template
    return json.dumps(contents, ensure_ascii=False, indent=1).encode() + b"\n"


_ADDED_TOKEN: Final = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}
"""Settings that match a special token in a text exactly as it is spelled."""


def token_roles(model: Model) -> dict[str, str]:
    """Return the special token of each role for which the model has one."""
    tokens = {
        role: next((name for name in names if name in model.special_tokens), None)
        for role, names in _ROLES.items()
    }
    return {role: name for role, name in tokens.items() if name is not None}


_BYTES = {ord(character): value for value, character in enumerate(_CHARACTERS)}
"""The byte of each character that spells one."""


def token_bytes(spelling: str, *, name: str) -> bytes:
    r"""Return the bytes of a token by its spelling.

    >>> token_bytes("Ġthe", name="f")
    b' the'

    Raises:
        TokenizerError: A character is not the spelling of a byte.
    """
    try:
        return _encoded(spelling)
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"{name}: the token {spelling[:60]!r} holds {spelling[error.start]!r}, which spells no "
            "byte: its vocabulary is not byte-level"
        ) from error


def spelled_bytes(text: str) -> bytes | None:
    r"""Return the bytes that a text spells, or None if a character is not the spelling of a byte.

    >>> spelled_bytes("Ġ<|>"), spelled_bytes("<a b>")
    (b' <|>', None)
    """
    try:
        return _encoded(text)
    except UnicodeEncodeError:
        return None


def _encoded(spelling: str) -> bytes:
    return codecs.charmap_encode(spelling, "strict", _BYTES)[0]
