"""Corpora that are named on the command line: flags, finding files, reading and counting them."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO

from tqdm import tqdm

from nanotok_ray.cli.progress import Progress
from nanotok_ray.counts.count_slice import CorpusCounts, count_corpus
from nanotok_ray.errors import NanotokError, RecipeError, SourceError
from nanotok_ray.job.events import Advanced, Note, StageEnded, StageStarted
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.recipe.source import FORMATS
from nanotok_ray.recipe.text import parse_size
from nanotok_ray.sources.named_files import NamedFiles, ReadingRules, find_named, suffix_format
from nanotok_ray.sources.quarantine import TAIL, FirstBad, check_limits, locations_of, reason_of
from nanotok_ray.tokenizer.evaluation import KINDS, Corpus, CorpusReader
from nanotok_ray.tokenizer.output import file_suffix
from nanotok_ray.units import printable

if TYPE_CHECKING:
    from collections.abc import Mapping


_AS_FLAGS = {
    "set id_column in the recipe to": "set --by to",
    "set column in the recipe to": "set --column to",
}
"""What messages about a recipe say, and what is meant here."""

_KEYS = re.compile(r"source\.[A-Za-z0-9_.-]+\.(id_column|column|format)\b")
_FLAGS = {"id_column": "--by", "column": "--column", "format": "--input-format"}


def add_file_flags(group: "argparse._ActionsContainer") -> None:
    """Add them; all are None where they are not given."""
    group.add_argument(
        "--input-format",
        choices=FORMATS,
        help="of all files: a document a row, a JSON object a line, a line, or a file "
        "(default: by suffix)",
    )
    group.add_argument(
        "--document-per-file",
        action="store_true",
        default=None,
        help="a .txt, or a file of no known suffix, is one document and not one a line",
    )
    group.add_argument(
        "--column", metavar="NAME", help="parquet column or JSON field of the text (default: text)"
    )


def rules_of(arguments: argparse.Namespace) -> ReadingRules:
    """Return the rules; `arguments` may have --kind and --by too.

    Raises:
        SourceError: They contradict each other.
    """
    return ReadingRules(
        kind=getattr(arguments, "kind", "text"),
        format=arguments.input_format,
        document_per_file=bool(arguments.document_per_file),
        column=arguments.column,
        id_column=getattr(arguments, "by", None),
    )


def with_flags(error: NanotokError) -> NanotokError:
    """Return the error with what to do on a command line, and not in a recipe."""
    text = str(error)
    for recipe, flag in _AS_FLAGS.items():
        text = text.replace(recipe, flag)
    return type(error)(_KEYS.sub(lambda found: _FLAGS[found[1]], text))


MAX_BYTES: Final = "100MB"
LINE_SECONDS: Final = 10.0
"""At most one line in this time, where there is no terminal."""

UNNAMED: Final = "corpus"
"""The name of files that are given none."""

MEASURED_FILES_HELP: Final = """\
Files are parquet (a document a row), .jsonl and .ndjson (a JSON object a line) or .txt (a line),
the latter two also as .gz or .zst; paths, URLs, globs, and folders of one format. --kind chat takes
the texts of all messages. Documents that cannot be used are left out and counted.
"""

_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def add_corpus_flags(parser: argparse.ArgumentParser, *, with_labels: bool = False) -> None:
    """Add how files are read, and how much of them."""
    parser.add_argument(
        "--kind", choices=KINDS, default="text", help="what a line is (default: text)"
    )
    add_file_flags(parser)
    if with_labels:
        parser.add_argument(
            "--by",
            metavar="COLUMN",
            help="parquet column or JSON field that tells documents apart, as their language "
            "(default: by source alone)",
        )
    parser.add_argument(
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
    limit = max_bytes_of(arguments)
    readers = [_reader(name, value, arguments, limit=limit) for name, value in paths.items()]
    for reader in readers:
        for note in reader.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
    return readers


def max_bytes_of(arguments: argparse.Namespace) -> int:
    """Return --max-bytes.

    Raises:
        RecipeError: It is no size.
    """
    limit = parse_size(arguments.max_bytes, key="--max-bytes")
    if limit < 1:
        raise RecipeError(f"--max-bytes is {limit}: it must be 1 or more")
    return limit


def _reader(
    name: str, paths: list[str], arguments: argparse.Namespace, *, limit: int
) -> CorpusReader:
    corpus = Corpus(name=name, paths=tuple(paths), rules=rules_of(arguments))
    try:
        return CorpusReader(corpus, max_bytes=limit)
    except (RecipeError, SourceError) as error:
        raise with_flags(error) from error


def print_left_out(readers: Sequence[CorpusReader]) -> None:
    """Write what was not read of the corpora."""
    for reader in readers:
        name = reader.corpus.name
        if reader.is_cut:
            print(f"note: {name}: cut at --max-bytes, more text follows", file=sys.stderr)
        if reader.set_aside:
            text = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(reader.set_aside.items()))
            print(f"note: {name}: left out: {printable(text)}", file=sys.stderr)


@contextmanager
def byte_bar(stream: TextIO, *, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with bytes that were done: it draws a bar, or prints lines."""
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
            text = f"measure: {self._done / 1e6:,.1f} of about {self._total / 1e6:,.1f} MB"
            print(text, file=self._stream, flush=True)


_NOTES: Final = "the notes above"

TEXT_FILES_HELP: Final = """\
Files are parquet (a document a row), .jsonl and .ndjson (a JSON object a line) or .txt (a line;
blank lines are none), the latter two also as .gz or .zst; paths, URLs, globs, and folders of one
format. --input-format says what a name does not. A file that is named twice is read once.

Documents that cannot be used (invalid UTF-8, bad JSON, no text) are left out, counted and named
with their reasons; more than 0.1% of them, or a file that cannot be read to its end, is a failure
with exit code 3, and nothing is written. Files that cannot be opened are all named before anything
is counted.
"""


def add_corpus(group: "argparse._ActionsContainer") -> None:
    """Add how files are read and how much of them may be bad; all None where not given."""
    add_file_flags(group)
    group.add_argument(
        "--max-quarantined-share",
        type=float,
        metavar="SHARE",
        help="of the documents, how many may be bad (default: 0.001)",
    )
    group.add_argument(
        "--max-tails",
        type=int,
        metavar="N",
        help="files of which the rest may be unreadable (default: 0)",
    )


def find_corpus(
    paths: list[str], arguments: argparse.Namespace, *, output: str | None = None
) -> NamedFiles:
    """Find and open the files; tell how many there are.

    Files and folders that reach `output` are refused, if what lies there would be read as text.

    Raises:
        SourceError: As `find_named`.
        RecipeError: A limit is out of its range.
    """
    _limits(arguments)
    rules, written = rules_of(arguments), {}
    if output is not None and (file_suffix(output) is None or suffix_format(output) is not None):
        written = {"--output": output}
    try:
        named = find_named(paths, rules, written=written)
    except SourceError as error:
        raise with_flags(error) from error
    for note in named.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    size = sum(file.size for file in named.files)
    word = "file" if len(named.files) == 1 else "files"
    print(f"reading     {len(named.files):,} {word}, {size / 1e6:,.1f} MB", file=sys.stderr)
    return named


def count_named(
    named: NamedFiles, arguments: argparse.Namespace, *, pattern: str, threads: int | None
) -> CorpusCounts:
    """Count the spans of all files, with progress; tell what could not be used.

    Raises:
        QuarantineLimitError: That was too much.
        SourceError: There is no document to count, or as `count_corpus`, as are all others.
    """
    todo, start = len(named.slices), time.perf_counter()
    size = sum(slice_.num_bytes for slice_ in named.slices)
    with Progress(sys.stderr) as show:
        show(StageStarted(stage="count", todo=todo, num_done=0, num_bytes=size))
        found = count_corpus(
            named.slices,
            pattern=pattern,
            threads=threads,
            on_slice=lambda done, num_bytes: show(
                Advanced(stage="count", done=done, todo=todo, num_bytes=num_bytes)
            ),
        )
        seconds = time.perf_counter() - start
        show(StageEnded(stage="count", seconds=seconds, num_bytes=found.counts.text_bytes))
        pieces = [piece for slice_ in named.slices for piece in slice_.pieces]
        locations = locations_of(found.entries, pieces)
        for line in _quarantine_lines(found, locations):
            show(Note(text=line))
    check_limits(
        documents=found.documents,
        quarantined=found.quarantined,
        limits=_limits(arguments),
        where=_NOTES,
        first=lambda tails: _first(found, locations, tails=tails),
    )
    if not found.counts.texts:
        raise SourceError(
            f"there is no document in {len(named.files):,} files ({named.files[0].path}, ...): "
            "name files with text in them"
        )
    return found


def _limits(arguments: argparse.Namespace) -> LimitsRecipe:
    flags: Mapping[str, float | None] = {
        "max_quarantined_share": arguments.max_quarantined_share,
        "max_tails": arguments.max_tails,
    }
    values = {name: value for name, value in flags.items() if value is not None}
    return LimitsRecipe(**values)  # type: ignore[arg-type]


def _first(found: CorpusCounts, locations: "Sequence[str]", *, tails: bool) -> FirstBad | None:
    """Return the first entry, or the first tail, of those that are named."""
    for entry, position in zip(found.entries, locations, strict=True):
        if entry.kind == TAIL or not tails:
            return FirstBad(location=position, reason=reason_of(entry), listed=_NOTES)
    return None


def _quarantine_lines(found: CorpusCounts, locations: "Sequence[str]") -> list[str]:
    """Return lines that name the first documents that could not be used, and count all of them."""
    total = sum(found.quarantined.values())
    if not total:
        return []
    counted = ", ".join(f"{kind} ({number:,})" for kind, number in found.quarantined.items())
    lines = [f"{total:,} of {found.documents:,} documents were left out: {counted}"]
    for entry, position in zip(found.entries, locations, strict=True):
        lines.append(f"left out: {position}: {reason_of(entry)}")
    if total > len(found.entries):
        lines.append(f"left out: and {total - len(found.entries):,} more")
    return lines
