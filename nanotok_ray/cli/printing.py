"""What commands print: a line of JSON, tables, and the meaning of exit codes."""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.job.termination import EXIT_CODE as TERMINATED


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON document on one line of stdout."""
    print(json.dumps(values, sort_keys=True), flush=True)


__all__ = [
    "BAD_DATA",
    "BAD_OUTPUT",
    "EXIT_CODES",
    "FAILED",
    "INFRASTRUCTURE",
    "INTERRUPTED",
    "IN_USE",
    "TERMINATED",
    "USAGE",
]

FAILED, USAGE, BAD_DATA, BAD_OUTPUT, INFRASTRUCTURE = 1, 2, 3, 4, 5
IN_USE, INTERRUPTED = 6, 130
"""7, of a job that was stopped, is said by `cluster/submitting/ending.py`."""

EXIT_CODES = """\
exit codes:
  0  done, or nothing to do
  1  a failure with no code of its own
  2  the recipe, an input or an argument is wrong
  3  more documents were quarantined than the recipe allows
  4  the output is unfinished or not what it should be
  5  slices failed for good, or storage, the disk or a job server did
  6  another run has this output
  7  the submitted job was stopped
  130  interrupted (Ctrl-C): the same command resumes from there
  143  terminated (SIGTERM): the same command resumes from there
"""


def table_lines(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterator[str]:
    """Yield a line for each row, two spaces between columns, those of `left` aligned to the left.

    >>> list(table_lines([["text", "bytes"], ["news", "1,392"], ["数", "3"]]))
    ['text  bytes', 'news  1,392', '数        3']
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell + _fill(cell, width) if number in left else _fill(cell, width) + cell
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def _fill(cell: str, width: int) -> str:
    return " " * (width - width_of(cell))


def ratio(value: float | None) -> str:
    """Return bytes per token with three digits behind the point, "-" for None.

    >>> ratio(4.5678), ratio(None)
    ('4.568', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def signed_percent(value: float | None) -> str:
    """Return a difference in percent with its sign, "-" for None.

    >>> signed_percent(7.178), signed_percent(None)
    ('+7.2%', '-')
    """
    return "-" if value is None else f"{value:+.1f}%"
