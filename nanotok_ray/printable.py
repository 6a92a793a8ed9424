"""Text from elsewhere as a terminal may show it: names of files can hold anything.

Takes and gives a text. Does not know where it is printed.
"""


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
