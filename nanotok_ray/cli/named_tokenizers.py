"""Tokenizers that are named on the command line: a folder, a file, cl100k or o200k.

Takes arguments; gives counters, each with a name of its own. Does not know what they count.
"""

import argparse
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from nanotok_ray.cli.measured_corpora import named
from nanotok_ray.errors import TokenizerError
from nanotok_ray.evaluation import PUBLISHED, TokenCounter, TokenizerCounter, published_counter
from nanotok_ray.patterns import PATTERNS
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.opened import open_tokenizer

TOKENIZERS_TOLD: Final = f"""\
A tokenizer is a folder, a tokenizer.json, a tokenizer.pkl, or a file of ranks with the name of its
pattern, as ranks.tiktoken:gpt4 (of {", ".join(PATTERNS)}; or --pattern).
"""

PUBLISHED_TOLD: Final = f"""\
{" and ".join(PUBLISHED)} stand for OpenAI's, if bpe-openai is installed, which has them.
NAME=TOKENIZER gives it a name of its own in the table.
"""

_RANKS = ".tiktoken"


def add_pattern(own: argparse.ArgumentParser) -> None:
    """Add --pattern."""
    own.add_argument(
        "--pattern",
        metavar="NAME|REGEX",
        help="split pattern of tokenizers that are .tiktoken files, which do not say it",
    )


def counters_of(specs: Sequence[str], arguments: argparse.Namespace) -> list[TokenCounter]:
    """Open tokenizers; those without a NAME= are called by the end of their path.

    Raises:
        TokenizerError: One cannot be opened, or two have the same name.
    """
    pairs = [named(spec) for spec in specs]
    names = _names(pairs)
    return [
        published_counter(spec, name=name)
        if spec in PUBLISHED
        else TokenizerCounter(name, opened(spec, arguments))
        for name, (_, spec) in zip(names, pairs, strict=True)
    ]


def opened(spec: str, arguments: argparse.Namespace) -> Tokenizer:
    """Open one of our own.

    Raises:
        TokenizerError: It cannot be opened.
    """
    path, pattern = _with_pattern(spec)
    pattern = pattern or (arguments.pattern if path.endswith(_RANKS) else None)
    return open_tokenizer(path, pattern=pattern)


def about(counter: TokenCounter) -> dict[str, Any]:
    """Give what says which tokenizer it is, as JSON values."""
    own = {"name": counter.name, "vocab_size": counter.num_ids}
    if isinstance(counter, TokenizerCounter):
        own["sha256"] = counter.tokenizer.sha256
    return own


def _with_pattern(spec: str) -> tuple[str, str | None]:
    """Take FILE.tiktoken:PATTERN apart.

    >>> _with_pattern("a/ranks.tiktoken:gpt4"), _with_pattern("s3://bucket/folder")
    (('a/ranks.tiktoken', 'gpt4'), ('s3://bucket/folder', None))
    """
    path, found, pattern = spec.partition(f"{_RANKS}:")
    return (f"{path}{_RANKS}", pattern) if found else (spec, None)


def _names(pairs: Sequence[tuple[str | None, str]]) -> list[str]:
    """Call each by its name, else by as much of the end of its path as tells all apart.

    >>> _names([(None, "a/tokenizer"), ("mine", "b/tokenizer"), (None, "c/tokenizer")])
    ['a/tokenizer', 'mine', 'c/tokenizer']
    """
    parts = [PurePosixPath(_with_pattern(spec)[0]).parts for _, spec in pairs]
    names: list[str] = []
    for length in range(1, max(map(len, parts), default=1) + 1):
        names = [
            name or "/".join(own[-length:]).lstrip("/")
            for (name, _), own in zip(pairs, parts, strict=True)
        ]
        if len(set(names)) == len(names):
            return names
    twice = next(name for name in names if names.count(name) > 1)
    raise TokenizerError(
        f"two tokenizers are called {twice}: leave one out, or give it a name, as other={twice}"
    )
