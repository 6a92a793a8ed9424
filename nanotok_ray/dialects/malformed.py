"""What reading a malformed document raises, and the reason that its quarantine entry states.

Takes an error; gives one line. Does not see the document.
"""

from typing import Final

from nanotok_ray.dialects.json_value import MAX_QUOTED_CHARS
from nanotok_ray.errors import SourceError

MALFORMED: Final = (AssertionError, LookupError, TypeError, ValueError, RecursionError)
"""What a malformed document raises; `reason_of` words it. The last: a value that is nested deeply
where a string belongs cannot be quoted."""

_TAIL_CHARS = 40


def reason_of(error: BaseException) -> str:
    r"""Word an error of a malformed document for a reader who does not see the document.

    What it repeats of the document is cut where it is long; the end, which says what should have
    been there, is kept. Line breaks, and what terminals obey or UTF-8 lacks, are escaped.

    >>> reason_of(KeyError("text"))
    "KeyError: 'text'"
    >>> len(reason_of(AssertionError("Message 0 is from " + 1000 * "x"))) < 300
    True
    >>> print(reason_of(AssertionError("Message 0 is from \ud800\n but should be from user")))
    Message 0 is from \ud800\n but should be from user
    """
    if isinstance(error, RecursionError):
        return "nested too deeply: a value where a string belongs"
    if isinstance(error, SourceError):
        return str(error)
    text = str(error)
    if type(error) not in (AssertionError, ValueError):
        text = f"{type(error).__name__}: {text}"
    if len(text) > MAX_QUOTED_CHARS + _TAIL_CHARS:
        text = f"{text[:MAX_QUOTED_CHARS]}...{text[-_TAIL_CHARS:]}"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
