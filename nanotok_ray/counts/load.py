"""Counts from paths: files of a work folder, and tables of spans."""

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
    """Files of counts by kind, sorted by path, without duplicates."""

    count_files: tuple[str, ...]
    parquet: tuple[str, ...]


def find_counts(paths: Iterable[str]) -> CountPaths:
    """Return the count files that are named, matched by globs, or in folders.

    In a folder only `.arrow` and `.parquet` files are found: records, quarantine lists and
    `_SUCCESS` of a job are skipped.

    Raises:
        SourceError: A path matches nothing, a folder contains no counts, or a file has another
            suffix.
        CountsError: The folder of a job contains two count files of one slice.
        TransientIOError: A remote store failed in a way that a retry can solve.
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
    """Return the sum of all files; the memory is that of the sums and a bounded buffer.

    Args:
        paths: the result of `find_counts`.
        pattern: a name or a regular expression. It is required for parquet files, which do not
            contain the pattern of their spans; count files contain it, and must agree.
        span_column: the column of parquet files with strings, bytes, or a dictionary of these.
        count_column: the column of parquet files with integers.

    Raises:
        CountsError: The pattern is missing or contradicts a count file, count files contradict
            each other, or a span or a count is invalid (the message names file, row and value).
        CorruptOutputError: A count file is damaged, or has another version.
        CountOverflowError: A sum would exceed 2**64 - 1.
        PatternError: The pattern is unknown or cannot be compiled.
        SourceError: A parquet file cannot be read, or lacks a column.
    """
    asked = None if pattern is None else resolve_pattern(pattern)
    if asked is None and paths.parquet:
        raise CountsError(
            f"{paths.parquet[0]} is parquet, which does not state the pattern that cut its spans: "
            f"pass the pattern (--pattern), one of {', '.join(PATTERNS)} or a regular expression"
        )
    if paths.count_files:
        counts = SpanCounts.load(*paths.count_files)
        if asked not in {None, counts.pattern}:
            raise CountsError(
                f"the pattern is {asked!r}, and {paths.count_files[0]} was made with "
                f"{counts.pattern!r}: omit the pattern, or count the texts again"
            )
    else:
        counts = SpanCounts() if asked is None else SpanCounts(asked)
    for url in paths.parquet:
        for row, spans, numbers in read_parquet(
            url, span_column=span_column, count_column=count_column
        ):
            counts.add(spans, numbers, name=url, first_row=row)
    return counts


def _chosen(matched: FoundFiles, *, path: str) -> list[str]:
    files = [file.path for file in matched.files]
    if not matched.is_folder:
        return files
    chosen = [file for file in files if file.endswith(_SUFFIXES)]
    if not chosen:
        raise SourceError(
            f"{path} holds no counts: none of its {len(files)} files ends in "
            f"{' or '.join(_SUFFIXES)}; pass a file itself if it has another name"
        )
    return chosen


def _start(file: str) -> bytes:
    with open_input(file) as opened:
        return opened.read(len(_ARROW))


def _check_slices(files: Sequence[str]) -> None:
    """Refuse two count files of one slice, which the folder of several runs can contain."""
    seen: dict[str, str] = {}
    for file in files:
        match = _KEYED_NAME.fullmatch(file)
        if match and (other := seen.setdefault(match[1], file)) != file:
            raise CountsError(
                f"{other} and {file} are counts of one slice, made by runs that counted in "
                "different ways, so its texts would be counted twice: name the files to use"
            )
