"""tokenizer_config.json: what `transformers.AutoTokenizer` wants to know beside tokenizer.json.

- `bos_token` is nanochat's `<|bos|>`, with which every document begins.
- `eos_token` is where nanochat's engine stops in a chat, `<|assistant_end|>`.
- `pad_token` is `<|bos|>`, as in nanochat's packing. It must not be the end token: collators give
  padding no loss, and a model that never sees a loss on its end token never learns to stop.

Other vocabularies delimit documents by `<|endoftext|>`, which stands for all three if nothing else
does. The chat template lies in here, where each version since 4.34 reads it, and not in a file of
its own, so that tokenizers without one have the same files. There is no `model_max_length`, as a
tokenizer has none. `split_special_tokens` is not set: true, it would keep the names of special
tokens in texts text, and those that the chat template writes as well. Takes a model, knows no ids
but those of its special tokens.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from nanotok_ray.tokenizer.chat_template import to_chat_template
from nanotok_ray.tokenizer.model import Model

_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "bos_token": ("<|bos|>", "<|endoftext|>"),
    "eos_token": ("<|assistant_end|>", "<|endoftext|>", "<|bos|>"),
    "pad_token": ("<|bos|>", "<|endoftext|>"),
}
"""The special tokens that may have a role; the first that the tokenizer has gets it."""


def to_huggingface_config(model: Model) -> bytes:
    r"""Give the file.

    >>> model = Model(pattern=r"\w+", unicode_version="16.0.0", merges=(),
    ...               special_tokens={"<|bos|>": 256})
    >>> json.loads(to_huggingface_config(model))["eos_token"]
    '<|bos|>'
    """
    roles = _roles(model)
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
"""How a special token is found in a text: exactly as it is spelled."""


def _roles(model: Model) -> dict[str, str]:
    """Give the special token of each role, as far as the model has one for it."""
    found = {
        role: next((name for name in names if name in model.special_tokens), None)
        for role, names in _ROLES.items()
    }
    return {role: name for role, name in found.items() if name is not None}
