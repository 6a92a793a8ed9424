"""tokenizer.json for Hugging Face's `tokenizers`, with our ids.

Bytes are written as the characters of GPT-2's byte-level alphabet, the pattern as its regex engine
has to be told it. The ids of a text equal ours with every named pattern (tokenizers 0.23: on all
code points), once the tokenizer was told `encode_special_tokens = True`: without it, names of
special tokens in a text become special there. docs/formats.md says what else it cannot do.
"""

import json
from typing import Any

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.huggingface_pattern import to_huggingface_pattern
from nanotok_ray.tokenizer.model import Model


def to_huggingface_file(model: Model) -> bytes:
    """Give the file.

    Raises:
        TokenizerError: Two ids stand for the same bytes, or special tokens leave ids unused.
    """
    names = [_spell(token) for token in model.ranks()]
    contents = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(model),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": to_huggingface_pattern(model.pattern)},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {**_BYTE_LEVEL, "use_regex": False},
            ],
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
            "vocab": {name: number for number, name in enumerate(names)},
            "merges": [[names[left], names[right]] for left, right in model.merges],
        },
    }
    return json.dumps(contents, ensure_ascii=False, indent=1).encode() + b"\n"


_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}


def _added_tokens(model: Model) -> list[dict[str, Any]]:
    first = len(model.tokens)
    if list(model.special_tokens.values()) != list(range(first, model.num_ids)):
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
    """Give the character for each byte: itself where it prints, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    substitutes = iter(range(0x100, 0x200))
    return [chr(value if value in printable else next(substitutes)) for value in range(256)]


_CHARACTERS = _alphabet()


def _spell(token: bytes) -> str:
    return "".join([_CHARACTERS[value] for value in token])
