"""Text from elsewhere as a terminal may show it: names of files can hold anything.

Takes and gives a text. Does not know where it is printed.
"""

from collections.abc import Sequence

SHOWN = 3
"""So many names of a list are shown."""


def printable(text: str, *, lines: bool = False) -> str:
    r"""Write what is not printable as an escape: control characters, and halves of characters.

    Args:
        text: a name, or with `lines` a text of several lines.
        lines: whether line breaks stay.

    >>> printable("a\n\x1b[31mré\udcff"), printable("a\nb", lines=True)
    ('a\\n\\x1b[31mré\\udcff', 'a\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or (lines and each == "\n")
        else each.encode("unicode_escape").decode()
        for each in text
    )


def few(names: Sequence[str], total: int | None = None) -> str:
    """Return the first few names, and how many more there are of `total` (None: of the names).

    >>> few(["a", "b", "c", "d"], 9)
    'a, b, c and 6 more'
    """
    shown = names[:SHOWN]
    left = (len(names) if total is None else total) - len(shown)
    more = f" and {left:,} more" if left > 0 else ""
    return f"{', '.join(map(printable, shown))}{more}"
