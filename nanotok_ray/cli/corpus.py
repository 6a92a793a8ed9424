"""A corpus that is named on the command line: its flags, and counting it before everyone's eyes.

Takes arguments; gives counts. What could not be used is told, and refused where it is too much.
Does not know what the counts are for.
"""

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from nanotok_ray.cli.file_flags import add_file_flags, rules_of, with_flags
from nanotok_ray.cli.progress import Progress
from nanotok_ray.counts.corpus import CorpusCounts, count_corpus
from nanotok_ray.errors import SourceError
from nanotok_ray.job.events import Advanced, Note, StageEnded, StageStarted
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources.named_files import NamedFiles, find_named, suffix_format
from nanotok_ray.sources.quarantine import TAIL, FirstBad, check_limits, places_of, reason_of
from nanotok_ray.tokenizer.output import file_suffix
from nanotok_ray.units import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NOTES: Final = "the notes above"

FILES_TOLD: Final = """\
Files are parquet (a document a row), .jsonl and .ndjson (a JSON object a line) or .txt (a line;
blank lines are none), the latter two also as .gz or .zst; paths, URLs, globs, and folders of one
format. --input-format says what a name does not. A file that is named twice is read once.

Documents that cannot be used (invalid UTF-8, bad JSON, no text) are left out, counted and named
with their reasons; more than 0.1% of them, or a file that cannot be read to its end, is a failure
with exit code 3, and nothing is written. Files that cannot be opened are all named before anything
is counted.
"""


def add_corpus(own: "argparse._ActionsContainer") -> None:
    """Add how files are read and how much of them may be bad; all None where not given."""
    add_file_flags(own)
    own.add_argument(
        "--max-quarantined-share",
        type=float,
        metavar="SHARE",
        help="of the documents, how many may be bad (default: 0.001)",
    )
    own.add_argument(
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
    size = sum(each.num_bytes for each in named.slices)
    with Progress(sys.stderr) as show:
        show(StageStarted(stage="count", todo=todo, kept=0, num_bytes=size))
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
        pieces = [piece for each in named.slices for piece in each.pieces]
        places = places_of(found.entries, pieces)
        for line in _quarantine_lines(found, places):
            show(Note(text=line))
    check_limits(
        documents=found.documents,
        quarantined=found.quarantined,
        limits=_limits(arguments),
        where=_NOTES,
        first=lambda tails: _first(found, places, tails=tails),
    )
    if not found.counts.texts:
        raise SourceError(
            f"there is no document in {len(named.files):,} files ({named.files[0].path}, ...): "
            "name files with text in them"
        )
    return found


def _limits(arguments: argparse.Namespace) -> LimitsRecipe:
    given: Mapping[str, float | None] = {
        "max_quarantined_share": arguments.max_quarantined_share,
        "max_tails": arguments.max_tails,
    }
    values = {name: value for name, value in given.items() if value is not None}
    return LimitsRecipe(**values)  # type: ignore[arg-type]


def _first(found: CorpusCounts, places: "Sequence[str]", *, tails: bool) -> FirstBad | None:
    """Return the first entry, or the first tail, of those that are named."""
    for entry, place in zip(found.entries, places, strict=True):
        if entry.kind == TAIL or not tails:
            return FirstBad(place=place, reason=reason_of(entry), listed=_NOTES)
    return None


def _quarantine_lines(found: CorpusCounts, places: "Sequence[str]") -> list[str]:
    """Name the first documents that could not be used, and count all of them."""
    total = sum(found.quarantined.values())
    if not total:
        return []
    counted = ", ".join(f"{kind} ({number:,})" for kind, number in found.quarantined.items())
    lines = [f"{total:,} of {found.documents:,} documents were left out: {counted}"]
    for entry, place in zip(found.entries, places, strict=True):
        lines.append(f"left out: {place}: {reason_of(entry)}")
    if total > len(found.entries):
        lines.append(f"left out: and {total - len(found.entries):,} more")
    return lines
