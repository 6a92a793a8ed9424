"""A table for people: columns as wide as their widest cell, numbers to the right.

Takes cells; gives lines. Does not know what they mean.
"""

import unicodedata
from collections.abc import Iterator, Sequence


def table_lines(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterator[str]:
    """Give a line for each row, two spaces between columns, those of `left` aligned to the left.

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
    """Give how many columns of a terminal a text takes."""
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(bool(unicodedata.combining(each)) for each in text)


def _fill(cell: str, width: int) -> str:
    return " " * (width - width_of(cell))


def ratio(value: float | None) -> str:
    """Spell bytes per token.

    >>> ratio(4.5678), ratio(None)
    ('4.568', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def signed_percent(value: float | None) -> str:
    """Spell a difference.

    >>> signed_percent(7.178), signed_percent(None)
    ('+7.2%', '-')
    """
    return "-" if value is None else f"{value:+.1f}%"
