"""Counts that lie in files, all added up: count files, and parquet files from elsewhere.

The first bytes of a file show which of the two kinds it is.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nanotok_ray.counts.columns import read_parquet
from nanotok_ray.counts.patterns import PATTERNS, resolve_pattern
from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.errors import CountsError, SourceError
from nanotok_ray.storage import FoundFiles, find_files, open_input

_ARROW, _PARQUET = b"ARROW1", b"PAR1"
_SUFFIXES = (".arrow", ".parquet")
_KEYED_NAME = re.compile(r"(.*)-[0-9a-f]{16}\.arrow")


@dataclass(frozen=True, kw_only=True, slots=True)
class CountPaths:
    """Files of counts, by kind; each once, sorted by path."""

    count_files: tuple[str, ...]
    parquet: tuple[str, ...]


def find_counts(paths: Iterable[str]) -> CountPaths:
    """Find files of counts: those named, those that globs match, and those below folders.

    Below a folder only `.arrow` and `.parquet` count, so that a job's records, quarantine lists and
    `_SUCCESS` are left out.

    Raises:
        SourceError: A path matches nothing, a folder holds no counts, or a file is neither kind.
        CountsError: A job's folder holds counts of one slice twice.
        TransientIOError: A remote store failed in a way that may pass.
    """
    files = sorted({file for path in paths for file in _chosen(find_files(path), path=path)})
    starts = {file: _start(file) for file in files}
    for file, start in starts.items():
        if not start.startswith((_ARROW, _PARQUET)):
            raise SourceError(
                f"{file} is neither a count file nor parquet: it begins with {start!r}"
            )
    count_files = tuple(file for file in files if starts[file].startswith(_ARROW))
    _check_slices(count_files)
    return CountPaths(
        count_files=count_files, parquet=tuple(file for file in files if file not in count_files)
    )


def load_counts(
    paths: CountPaths,
    *,
    pattern: str | None = None,
    span_column: str = "span",
    count_column: str = "count",
) -> SpanCounts:
    """Add up all files, in bounded memory beside the sums.

    Args:
        paths: what `find_counts` found.
        pattern: a name or a regular expression; a parquet file does not say what cut its spans, so
            it is needed for one. Count files say it, and must say the same.
        span_column: of parquet files: strings, bytes, or a dictionary of these.
        count_column: of parquet files: any integer type.

    Raises:
        CountsError: The pattern is missing or contradicts a count file, or count files each other;
            a span or a count is none (names file, row and value).
        CorruptOutputError: A count file is damaged, or of another version.
        CountOverflowError: A sum would pass 2**64 - 1.
        PatternError: The pattern is unknown or cannot be compiled.
        SourceError: A parquet file cannot be read, or has not these columns.
    """
    asked = None if pattern is None else resolve_pattern(pattern)
    if asked is None and paths.parquet:
        raise CountsError(
            f"{paths.parquet[0]} is parquet, which does not say what pattern cut its spans: give "
            f"the pattern (--pattern), one of {', '.join(PATTERNS)} or a regular expression"
        )
    if paths.count_files:
        counts = SpanCounts.load(*paths.count_files)
        if asked not in {None, counts.pattern}:
            raise CountsError(
                f"the pattern is {asked!r}, and {paths.count_files[0]} was made with "
                f"{counts.pattern!r}: leave the pattern out, or count the texts again"
            )
    else:
        counts = SpanCounts() if asked is None else SpanCounts(asked)
    for url in paths.parquet:
        for row, spans, numbers in read_parquet(
            url, span_column=span_column, count_column=count_column
        ):
            counts.add(spans, numbers, name=url, first_row=row)
    return counts


def _chosen(found: FoundFiles, *, path: str) -> list[str]:
    files = [file.path for file in found.files]
    if not found.is_folder:
        return files
    chosen = [file for file in files if file.endswith(_SUFFIXES)]
    if not chosen:
        raise SourceError(
            f"{path} holds no counts: none of its {len(files)} files ends in "
            f"{' or '.join(_SUFFIXES)}; name a file itself if it is called otherwise"
        )
    return chosen


def _start(file: str) -> bytes:
    with open_input(file) as opened:
        return opened.read(len(_ARROW))


def _check_slices(files: Sequence[str]) -> None:
    """Refuse counts of one slice under two keys: a job's folder keeps those of earlier runs."""
    seen: dict[str, str] = {}
    for file in files:
        match = _KEYED_NAME.fullmatch(file)
        if match and (other := seen.setdefault(match[1], file)) != file:
            raise CountsError(
                f"{other} and {file} are counts of one slice, made by runs that counted in "
                "different ways, and its texts would count twice: name the files that you mean"
            )
