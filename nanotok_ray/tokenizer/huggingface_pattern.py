r"""A split pattern as Hugging Face's regex engine, Oniguruma, has to be told it.

Oniguruma reads `\p{N}{1,3}+` as "one to three, once or more" and takes all digits of a number;
elsewhere it means "one to three, and give none back". `(?>\p{N}{1,3})` means that everywhere. Takes
the text of a pattern and rewrites this alone; compiles nothing.
"""

import re
from typing import Final

_PARTS: Final = re.compile(
    r"""
      \\[pPx]\{[^}]*\} | \\x[0-9A-Fa-f]{2} | \\.                # what a backslash begins
    | \[\^?\]?(?: \\. | \[(?:\\.|[^\]\\])*\] | [^\]\\] )*\]     # a class, or one in another
    | \{\d+(?:,\d*)?\}\+?                                       # an interval, maybe possessive
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_INTERVAL: Final = re.compile(r"\{\d.*\}\+?")


def to_huggingface_pattern(pattern: str) -> str:
    r"""Give the pattern with each possessive interval as an atomic group.

    >>> to_huggingface_pattern(r"(b[\]}]{2}+){1,3}+|\p{N}{1,2}")
    '(?>(b(?>[\\]}]{2})){1,3})|\\p{N}{1,2}'
    """
    parts: list[str] = []
    opened: list[int] = []
    atom = 0  # where in `parts` begins what a quantifier would repeat
    for part in _PARTS.findall(pattern):
        if _INTERVAL.fullmatch(part) and part.endswith("+"):
            parts[atom:] = ["(?>" + "".join(parts[atom:]) + part[:-1] + ")"]
            continue
        if part == "(":
            opened.append(len(parts))
        elif part == ")":
            atom = opened.pop() if opened else len(parts)
        elif not _is_quantifier(part):
            atom = len(parts)
        parts.append(part)
    return "".join(parts)


def _is_quantifier(part: str) -> bool:
    return part in {"*", "+", "?"} or _INTERVAL.fullmatch(part) is not None
