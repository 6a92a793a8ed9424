"""Tokenizers that are named on the command line, and the picture that --plot asks for."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from nanotok_ray.cli.corpora import named
from nanotok_ray.counts.patterns import PATTERNS
from nanotok_ray.errors import RecipeError, TokenizerError
from nanotok_ray.report.figures import SUFFIXES, check_plot, plot_bytes
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.evaluation import PUBLISHED, TokenizerCounter, published_tokenizer
from nanotok_ray.tokenizer.opened import RANKS, open_tokenizer, path_and_pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TOKENIZERS_HELP: Final = f"""\
A tokenizer is a folder, a tokenizer.txt, tokenizer.json or tokenizer.pkl, or a file of ranks with
its pattern, as ranks.tiktoken:gpt4 ({", ".join(PATTERNS)}, REGEX; or --pattern).
{" and ".join(PUBLISHED)} stand for OpenAI's, if bpe-openai is installed, which has them.
"""

NAMES_HELP: Final = """\
NAME=TOKENIZER gives it a name of its own in the table.
"""


def add_pattern(parser: argparse.ArgumentParser) -> None:
    """Add --pattern."""
    parser.add_argument(
        "--pattern",
        metavar="NAME|REGEX",
        help="split pattern of tokenizers that are .tiktoken files, which do not say it "
        "(default: none)",
    )


def counters_of(specs: Sequence[str], arguments: argparse.Namespace) -> list[TokenizerCounter]:
    """Open tokenizers; those without a NAME= are called by the end of their path.

    Raises:
        TokenizerError: One cannot be opened, or two have the same name.
    """
    pairs = [named(spec) for spec in specs]
    names = _names(pairs)
    specs = [spec for _, spec in pairs]
    return [
        TokenizerCounter(name, value)
        for name, value in zip(names, _opened(specs, arguments.pattern), strict=True)
    ]


def opened(spec: str, arguments: argparse.Namespace) -> Tokenizer:
    """Open the one that a command is about.

    Raises:
        TokenizerError: It cannot be opened, or has a pattern and was given another.
    """
    return next(_opened([spec], arguments.pattern))


def _opened(specs: Sequence[str], pattern: str | None) -> Iterator[Tokenizer]:
    if pattern is not None and not any(spec.endswith(RANKS) for spec in specs):
        raise TokenizerError(
            f"--pattern is {pattern!r}, and {', '.join(specs)} says its own: only {RANKS} files "
            "lack it; leave --pattern out"
        )
    for spec in specs:
        if spec in PUBLISHED:
            yield published_tokenizer(spec)
        else:
            spec_pattern = pattern if spec.endswith(RANKS) else None
            yield open_tokenizer(spec, pattern=spec_pattern)


def about(counter: TokenizerCounter) -> dict[str, Any]:
    """Return what says which tokenizer it is, as JSON values."""
    sha256 = counter.tokenizer.sha256
    return {"name": counter.name, "vocab_size": counter.num_ids, "sha256": sha256}


def _names(pairs: Sequence[tuple[str | None, str]]) -> list[str]:
    """Return the name of each, or as much of the end of its path as distinguishes all.

    >>> _names([(None, "a/tokenizer"), ("mine", "b/tokenizer"), (None, "c/tokenizer")])
    ['a/tokenizer', 'mine', 'c/tokenizer']
    """
    parts = [PurePosixPath(path_and_pattern(spec)[0]).parts for _, spec in pairs]
    names: list[str] = []
    for length in range(1, max(map(len, parts), default=1) + 1):
        names = [
            name or "/".join(part[-length:]).lstrip("/")
            for (name, _), part in zip(pairs, parts, strict=True)
        ]
        if len(set(names)) == len(names):
            return names
    twice = next(name for name in names if names.count(name) > 1)
    raise TokenizerError(
        f"two tokenizers are called {twice}: leave one out, or give it a name, as other={twice}"
    )


def add_plot(parser: argparse.ArgumentParser, *, what: str) -> None:
    """Add --plot."""
    endings = ", ".join(SUFFIXES)
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help=f"draw {what} to a file that ends in {endings} (default: no picture)",
    )


def check_plot_of(arguments: argparse.Namespace) -> None:
    """Refuse, before anything is measured, a picture that cannot be drawn.

    Raises:
        RecipeError: There is no such folder.
        TokenizerError: The file's name does not say what is wanted, or matplotlib is missing.
    """
    if arguments.plot is None:
        return
    check_plot(arguments.plot)
    folder = Path(arguments.plot).absolute().parent
    if not folder.is_dir():
        raise RecipeError(f"--plot {arguments.plot}: there is no folder {folder}; make it first")


def write_plot(arguments: argparse.Namespace, figure: "Figure") -> None:
    """Write the picture and print its path."""
    path = Path(arguments.plot)
    path.write_bytes(plot_bytes(figure, name=path.name))
    print(f"wrote       {path}", file=sys.stderr)
