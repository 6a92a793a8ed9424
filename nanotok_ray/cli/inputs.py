"""Corpora and tokenizers named on the command line: finding, reading and counting them."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from nanotok_ray.counts import CorpusCounts, count_corpus
from nanotok_ray.errors import NanotokError, RecipeError, SourceError, TokenizerError
from nanotok_ray.job.events import Activity, Advanced, Note, StageEnded, StageStarted
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.recipe.text import parse_size
from nanotok_ray.report.figures import check_plot, plot_bytes
from nanotok_ray.sources import (
    TAIL,
    FirstBad,
    NamedFiles,
    ReadingRules,
    check_limits,
    find_named,
    locations_of,
    reason_of,
    suffix_format,
)
from nanotok_ray.tokenizer import RANKS, Tokenizer, file_suffix, open_tokenizer, path_and_pattern
from nanotok_ray.tokenizer.evaluation import (
    PUBLISHED,
    Corpus,
    CorpusReader,
    TokenizerCounter,
    Vocabulary,
    published_tokenizer,
)
from nanotok_ray.units import few, quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nanotok_ray.cli.app import Arguments

_AS_FLAGS = {
    "set id_column in the recipe to": "set --by to",
    "set column in the recipe to": "set --column to",
}
"""Advice in messages about a recipe, with its equivalent on a command line."""

_KEYS = re.compile(r"source\.[A-Za-z0-9_.-]+\.(id_column|column|format)\b")
_FLAGS = {"id_column": "--by", "column": "--column", "format": "--input-format"}


def rules_of(arguments: "Arguments") -> ReadingRules:
    """Return the rules of reading; `arguments` can include --kind and --by.

    Raises:
        SourceError: The options contradict each other.
    """
    return ReadingRules(
        kind=vars(arguments).get("kind", "text"),
        format=arguments.input_format,
        document_per_file=arguments.document_per_file,
        column=arguments.column,
        id_column=vars(arguments).get("by"),
    )


def with_flags(error: NanotokError) -> NanotokError:
    """Return the error with advice for the command line instead of a recipe."""
    text = str(error)
    for recipe, flag in _AS_FLAGS.items():
        text = text.replace(recipe, flag)
    return type(error)(_KEYS.sub(lambda match: _FLAGS[match[1]], text))


UNNAMED: Final = "corpus"
"""The name of files without a name."""

_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def named(argument: str) -> tuple[str | None, str]:
    """Return name and value of NAME=VALUE; a `=` in a folder's name does not end a name.

    >>> named("code=src/*.py"), named("a/day=1/x.txt"), named("x.txt")
    (('code', 'src/*.py'), (None, 'a/day=1/x.txt'), (None, 'x.txt'))
    """
    match = _NAMED.fullmatch(argument)
    return (None, argument) if match is None else (match[1], match[2])


def readers_of(items: Sequence[str], arguments: "Arguments") -> list[CorpusReader]:
    """Find the files; files of one name form one source, in the order of the names.

    Raises:
        RecipeError: Options are wrong or contradict each other.
        SourceError: Files are missing, cannot be read, or contradict the options.
    """
    paths: dict[str, list[str]] = {}
    for item in items:
        name, path = named(item)
        paths.setdefault(name or UNNAMED, []).append(path)
    limit = max_bytes_of(arguments)
    readers = [_reader(name, value, arguments, limit=limit) for name, value in paths.items()]
    for reader in readers:
        for note in reader.notes:
            arguments.console.note(note)
    return readers


def max_bytes_of(arguments: "Arguments") -> int:
    """Return the value of --max-bytes.

    Raises:
        RecipeError: The value is not a size.
    """
    limit = parse_size(arguments.max_bytes, key="--max-bytes")
    if limit < 1:
        raise RecipeError(f"--max-bytes is {limit}: it must be 1 or more")
    return limit


def _reader(name: str, paths: list[str], arguments: "Arguments", *, limit: int) -> CorpusReader:
    corpus = Corpus(name=name, paths=tuple(paths), rules=rules_of(arguments))
    try:
        return CorpusReader(corpus, max_bytes=limit)
    except (RecipeError, SourceError) as error:
        raise with_flags(error) from error


def print_skipped(readers: Sequence[CorpusReader], arguments: "Arguments") -> None:
    """Print what was skipped of the corpora."""
    for reader in readers:
        name = reader.corpus.name
        if reader.is_cut:
            arguments.console.note(f"{name}: truncated at --max-bytes; the source has more text")
        if reader.set_aside:
            text = ", ".join(f"{kind} ({n:,})" for kind, n in sorted(reader.set_aside.items()))
            arguments.console.note(f"{name}: skipped: {text}")


@contextmanager
def reading_progress(arguments: "Arguments", *, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the bytes of text that were read; it shows the progress."""
    done = 0
    with arguments.console.progress() as show:

        def advance(num_bytes: int) -> None:
            nonlocal done
            done += num_bytes
            show(Activity(text="reading bytes of text", done=done, todo=max(done, total)))

        yield advance


_NOTES: Final = "the notes above"


def find_corpus(arguments: "Arguments") -> NamedFiles:
    """Find and open the files, and print their number.

    Files and folders that include --output are refused if its files would be read as text.

    Raises:
        RecipeError: A path is a recipe.
        SourceError: As for `find_named`.
    """
    output, written = arguments.output, {}
    rules = rules_of(arguments)
    recipes = [path for path in arguments.files if path.endswith(".toml")]
    if recipes and rules.format is None and not rules.document_per_file:
        raise RecipeError(
            f"{recipes[0]} is a recipe; use `nanotok train {recipes[0]}`, or, to learn from the "
            "text of this file, add --document-per-file"
        )
    if file_suffix(output) is None or suffix_format(output) is not None:
        written = {"--output": output}
    try:
        named = find_named(list(arguments.files), rules, written=written)
    except SourceError as error:
        raise with_flags(error) from error
    for note in named.notes:
        arguments.console.note(note)
    size = sum(file.size for file in named.files)
    files = quantity(len(named.files), "file")
    arguments.console.text(f"reading     {files}, {size / 1e6:,.1f} MB")
    return named


def count_named(named: NamedFiles, arguments: "Arguments", *, pattern: str) -> CorpusCounts:
    """Count the spans of all files with progress; print the documents that could not be used.

    Raises:
        QuarantineLimitError: Too many documents could not be used.
        SourceError: There is no document to count, or as for `count_corpus`, like all other
            errors.
    """
    todo, start = len(named.slices), time.perf_counter()
    size = sum(slice_.num_bytes for slice_ in named.slices)
    with arguments.console.progress() as show:
        show(StageStarted(stage="count", todo=todo, num_done=0, num_bytes=size))
        corpus = count_corpus(
            named.slices,
            pattern=pattern,
            threads=arguments.cpus,
            on_slice=lambda done, num_bytes: show(
                Advanced(stage="count", done=done, todo=todo, num_bytes=num_bytes)
            ),
        )
        seconds = time.perf_counter() - start
        show(StageEnded(stage="count", seconds=seconds, num_bytes=corpus.counts.text_bytes))
        pieces = [piece for slice_ in named.slices for piece in slice_.pieces]
        locations = locations_of(corpus.entries, pieces)
        for line in _quarantine_lines(corpus, locations):
            show(Note(text=line))
    check_limits(
        documents=corpus.documents,
        quarantined=corpus.quarantined,
        limits=_limits(arguments),
        where=_NOTES,
        first=lambda tails: _first(corpus, locations, tails=tails),
    )
    if not corpus.counts.texts:
        files = few([file.path for file in named.files])
        raise SourceError(f"there is no document in {files}; pass files that contain text")
    return corpus


def _limits(arguments: "Arguments") -> LimitsRecipe:
    flags: Mapping[str, float | None] = {
        "max_quarantined_share": arguments.max_quarantined_share,
        "max_tails": arguments.max_tails,
    }
    values = {name: value for name, value in flags.items() if value is not None}
    return LimitsRecipe(**values)  # type: ignore[arg-type]


def _first(corpus: CorpusCounts, locations: "Sequence[str]", *, tails: bool) -> FirstBad | None:
    """Return the first entry, or with `tails` the first tail, of the named entries."""
    for entry, position in zip(corpus.entries, locations, strict=True):
        if entry.kind == TAIL or not tails:
            return FirstBad(location=position, reason=reason_of(entry), listed=_NOTES)
    return None


def _quarantine_lines(corpus: CorpusCounts, locations: "Sequence[str]") -> list[str]:
    """Return lines with the first documents that could not be used, and their total number."""
    total = sum(corpus.quarantined.values())
    if not total:
        return []
    counted = ", ".join(f"{kind} ({number:,})" for kind, number in corpus.quarantined.items())
    lines = [f"skipped {total:,} of {quantity(corpus.documents, 'document')}: {counted}"]
    for entry, position in zip(corpus.entries, locations, strict=True):
        lines.append(f"skipped: {position}: {reason_of(entry)}")
    if total > len(corpus.entries):
        lines.append(f"skipped: and {total - len(corpus.entries):,} more")
    return lines


def counters_of(specs: Sequence[str], pattern: str | None) -> list[TokenizerCounter]:
    """Open tokenizers; those without a NAME= are named by the end of their path.

    Raises:
        TokenizerError: A tokenizer cannot be opened, or two have the same name.
    """
    pairs = [named(spec) for spec in specs]
    names = _names(pairs)
    tokenizers = _opened([spec for _, spec in pairs], pattern)
    return [TokenizerCounter(name, value) for name, value in zip(names, tokenizers, strict=True)]


def opened(spec: str, pattern: str | None) -> Tokenizer:
    """Open the tokenizer of a command.

    Raises:
        TokenizerError: It cannot be opened, or has another pattern than the given one.
    """
    return next(_opened([spec], pattern))


def _opened(specs: Sequence[str], pattern: str | None) -> Iterator[Tokenizer]:
    if pattern is not None and not any(spec.endswith(RANKS) for spec in specs):
        raise TokenizerError(
            f"--pattern is {pattern!r}, and {', '.join(specs)} has its own: only {RANKS} files "
            "lack it; omit --pattern"
        )
    for spec in specs:
        if suffix_format(spec) in {"parquet", "jsonl"}:
            raise TokenizerError(
                f"{spec} is a text file, not a tokenizer; pass it with --corpus, and quote a glob "
                "so that the shell does not expand it"
            )
        if spec in PUBLISHED:
            yield published_tokenizer(spec)
        else:
            yield open_tokenizer(spec, pattern=pattern if spec.endswith(RANKS) else None)


def about(counter: TokenizerCounter) -> dict[str, Any]:
    """Return the attributes that identify a tokenizer, as JSON values."""
    values = {
        "name": counter.name,
        "vocab_size": counter.num_ids,
        "sha256": counter.tokenizer.sha256,
    }
    superwords = counter.vocabulary.num_superwords
    return values | ({"superwords": superwords} if superwords else {})


def superwords_text(vocabulary: Vocabulary) -> str:
    """Return the number of tokens of several words and their share of the tokens of text."""
    number, share = vocabulary.num_superwords, vocabulary.superword_share
    return f"{number:,} tokens of the vocabulary, {share:.1%}"


def _names(pairs: Sequence[tuple[str | None, str]]) -> list[str]:
    """Return the name of each, or the shortest unique end of its path.

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
        f"two tokenizers are called {twice}: remove one, or give it a name, such as other={twice}"
    )


def check_plot_of(path: str | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is measured.

    Raises:
        RecipeError: The folder does not exist.
        TokenizerError: The suffix of the file is unknown, or matplotlib is missing.
    """
    if path is None:
        return
    check_plot(path)
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise RecipeError(f"--plot {path}: there is no folder {folder}; create it first")


def write_plot(arguments: "Arguments", figure: "Figure") -> None:
    """Write the picture and print its path."""
    path = Path(arguments.plot)
    path.write_bytes(plot_bytes(figure, name=path.name))
    arguments.console.text(f"wrote       {path}")
