"""Corpora that a command measures: their flags, finding them, reading them before everyone's eyes.

Takes arguments; gives readers. What could not be read, or was left out, is told. Does not know what
is measured.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO

from tqdm import tqdm

from nanotok_ray.cli.file_flags import add_file_flags, rules_of, with_flags
from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.recipe.text import parse_size
from nanotok_ray.tokenizer.evaluation import KINDS, Corpus, CorpusReader
from nanotok_ray.units import printable

MAX_BYTES: Final = "100MB"
LINE_SECONDS: Final = 10.0
"""At most one line in this time, where there is no terminal."""

UNNAMED: Final = "corpus"
"""The name of files that are given none."""

FILES_TOLD: Final = """\
Files are parquet (a document a row), .jsonl and .ndjson (a JSON object a line) or .txt (a line),
the latter two also as .gz or .zst; paths, URLs, globs, and folders of one format. --kind chat takes
the texts of all messages. Documents that cannot be used are left out and counted.
"""

_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def add_corpus_flags(own: argparse.ArgumentParser, *, with_labels: bool = False) -> None:
    """Add how files are read, and how much of them."""
    own.add_argument("--kind", choices=KINDS, default="text", help="what a line is (default: text)")
    add_file_flags(own)
    if with_labels:
        own.add_argument(
            "--by",
            metavar="COLUMN",
            help="parquet column or JSON field that tells documents apart, as their language "
            "(default: by source alone)",
        )
    own.add_argument(
        "--max-bytes",
        default=MAX_BYTES,
        metavar="SIZE",
        help=f"read so much text of each source, from its beginning (default: {MAX_BYTES})",
    )


def named(argument: str) -> tuple[str | None, str]:
    """Take NAME=VALUE apart; a path with a `=` in a folder's name is no name.

    >>> named("code=src/*.py"), named("a/day=1/x.txt"), named("x.txt")
    (('code', 'src/*.py'), (None, 'a/day=1/x.txt'), (None, 'x.txt'))
    """
    found = _NAMED.fullmatch(argument)
    return (None, argument) if found is None else (found[1], found[2])


def readers_of(items: Sequence[str], arguments: argparse.Namespace) -> list[CorpusReader]:
    """Find the files; those of one name are one source, in the order of the names.

    Raises:
        RecipeError: Flags are wrong, or impossible together.
        SourceError: Files are missing, cannot be read, or are not what the flags say.
    """
    paths: dict[str, list[str]] = {}
    for item in items:
        name, path = named(item)
        paths.setdefault(name or UNNAMED, []).append(path)
    most = max_bytes_of(arguments)
    readers = [_reader(name, own, arguments, most=most) for name, own in paths.items()]
    for reader in readers:
        for note in reader.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
    return readers


def max_bytes_of(arguments: argparse.Namespace) -> int:
    """Give --max-bytes.

    Raises:
        RecipeError: It is no size.
    """
    most = parse_size(arguments.max_bytes, key="--max-bytes")
    if most < 1:
        raise RecipeError(f"--max-bytes is {most}: it must be 1 or more")
    return most


def _reader(
    name: str, paths: list[str], arguments: argparse.Namespace, *, most: int
) -> CorpusReader:
    corpus = Corpus(name=name, paths=tuple(paths), rules=rules_of(arguments))
    try:
        return CorpusReader(corpus, max_bytes=most)
    except (RecipeError, SourceError) as error:
        raise with_flags(error) from error


def tell_left_out(readers: Sequence[CorpusReader]) -> None:
    """Say what of the corpora was not read, once they were."""
    for reader in readers:
        name = reader.corpus.name
        if reader.is_cut:
            print(f"note: {name}: cut at --max-bytes, more text follows", file=sys.stderr)
        if reader.set_aside:
            told = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(reader.set_aside.items()))
            print(f"note: {name}: left out: {printable(told)}", file=sys.stderr)


@contextmanager
def shown_bytes(stream: TextIO, *, total: int) -> Iterator[Callable[[int], None]]:
    """Give what takes bytes that were done: a bar in a terminal, in a log a line now and then."""
    if stream.isatty():
        with tqdm(
            total=total, desc="measure", unit="B", unit_scale=True, file=stream, leave=False
        ) as bar:
            yield lambda num_bytes: _advance(bar, num_bytes)
        return
    yield _Lines(stream, total=total)


def _advance(bar: "tqdm[Any]", num_bytes: int) -> None:
    bar.update(num_bytes)


class _Lines:
    def __init__(self, stream: TextIO, *, total: int) -> None:
        self._stream = stream
        self._total = total
        self._done = 0
        self._last = time.monotonic()

    def __call__(self, num_bytes: int) -> None:
        self._done += num_bytes
        if (now := time.monotonic()) - self._last >= LINE_SECONDS:
            self._last = now
            told = f"measure: {self._done / 1e6:,.1f} of about {self._total / 1e6:,.1f} MB"
            print(told, file=self._stream, flush=True)
