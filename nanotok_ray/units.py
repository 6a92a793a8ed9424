"""Numbers with units, and text from elsewhere, as they may be shown: printable, without secrets."""

import os
import re
from collections.abc import Sequence


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> format_bytes(999), format_bytes(1_250_000), format_bytes(2.5e12)
    ('999 bytes', '1.2 MB', '2.5 TB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,.0f} bytes"


MAX_NAMES = 3
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
        char
        if char.isprintable() or (lines and char == "\n")
        else char.encode("unicode_escape").decode()
        for char in text
    )


def few(names: Sequence[str], total: int | None = None) -> str:
    """Return the first few names, and how many more there are of `total` (None: of the names).

    >>> few(["a", "b", "c", "d"], 9)
    'a, b, c and 6 more'
    """
    listed = names[:MAX_NAMES]
    left = (len(names) if total is None else total) - len(listed)
    more = f" and {left:,} more" if left > 0 else ""
    return f"{', '.join(map(printable, listed))}{more}"


_NAMES = re.compile(
    r"TOKEN$|SECRET|PASSWORD|PASSWD|CREDENTIAL|ACCOUNT_KEY|ACCESS_KEY|SAS$|CONNECTION_STRING"
)
_LOGIN = re.compile(r"(://)[^/@\s\"']+@")
_PARAMETER = re.compile(
    r"([?&][^=&\s\"']*(?:sig|token|key|secret|password|credential)[^=&\s\"']*=)[^&\s\"']+",
    re.IGNORECASE,
)
_LEAST = 6  # a shorter value would blot out words
_BLOT = "***"


def is_secret(name: str) -> bool:
    """Return whether an environment variable of this name holds a secret.

    One whose name ends in PATH, FILE or URI holds a place.

    >>> [is_secret(name) for name in ("HF_TOKEN", "RAY_AUTH_TOKEN_PATH", "MAX_TOKENS")]
    [True, False, False]
    """
    upper = name.upper()
    return bool(_NAMES.search(upper)) and not upper.endswith(("PATH", "FILE", "URI"))


def without_secrets(text: str) -> str:
    """Replace what looks like a secret by `***`.

    That is logins in URLs, parameters of URLs that are named like secrets, and every value of an
    environment variable that `is_secret`.

    >>> without_secrets('paths = ["https://me:pw@host/a?sig=abc&b=1", "s3://${BUCKET}/x"]')
    'paths = ["https://***@host/a?sig=***&b=1", "s3://${BUCKET}/x"]'
    """
    text = _PARAMETER.sub(rf"\g<1>{_BLOT}", _LOGIN.sub(rf"\g<1>{_BLOT}@", text))
    values = {value for name, value in os.environ.items() if is_secret(name)}
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) >= _LEAST:
            text = text.replace(value, _BLOT)
    return text
