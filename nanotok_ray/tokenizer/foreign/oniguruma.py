r"""Patterns that Oniguruma, the regex engine of `tokenizers`, matches differently.

The text of a pattern is examined; nothing is compiled. The check refuses some patterns that match
alike, but none of the patterns of known tokenizers.
"""

import re

from nanotok_ray.errors import TokenizerError

_SPACES_AT_END = r"\s++$"
"""After all white space, the end of a line is the end of the text."""

_PARTS = re.compile(
    r"""
      \\[pPxu]\{[^}]*\} | \\. | \(\?<?[=!] | \(\?P?<\w+> | \(\?\w*[:>)]? | [*+?][+?]?
    | \[\^?\]?(?: \\. | \[(?:\\.|[^\]\\])*\] | [^\]\\] )*\]  # a class, or one in another
    | \{\d*,?\d*\}[+?]? | .
    """,
    re.VERBOSE | re.DOTALL,
)

_OTHERWISE = re.compile(
    r"[\^$]"  # ends of lines in Oniguruma, ends of the text here
    r"|\{.*\}\+"  # repeated in Oniguruma, possessive here
    r"|\(\?(?!i?[:)]|[=!>]|<|P<).*"  # flags other than i, conditions, comments
    r"|\\[wWbB]"  # U+200C and U+200D are word characters here
    r"|\\[hHRXKGONZyYQE<>0-9k]|\\[pP](?:\{\^.*)?",
    re.DOTALL,
)
_OTHERWISE_IN_CLASS = re.compile(r"\[:|--|~~|\\[wWhHRXNOpPbB](?<!\\[pP])|\\[pP](?!\{[^^])")
_FOLDED = re.compile(
    r"(?:^\(\?i\).*?|\(\?i:(?:[^)\\]|\\.)*?)(?:ss|ff|fi|fl|st|[^\x00-\x7f]|\\[pPux]|\((?!\?i\)))",
    re.IGNORECASE | re.DOTALL,
)
"""Case-insensitive matching, the size of a character, and properties of letters."""

_GROUP = re.compile(r"\(([^()]*)\)")
_ALWAYS = re.compile(r"c(?!\?)")


def check_reads_alike(pattern: str, *, name: str) -> None:
    """Check that Oniguruma splits texts by a pattern in the same way.

    Raises:
        TokenizerError: The result can differ, or the pattern can match the empty string, at which
            only `tokenizers` splits.
    """
    parts = _PARTS.findall(pattern.replace(_SPACES_AT_END, r"\s"))
    unlike = next((part for index, part in enumerate(parts) if _is_other(part, index)), None)
    if unlike is None and "(?i" in pattern and (folded := _FOLDED.search(pattern)):
        unlike = folded[0]
    if unlike is not None:
        raise TokenizerError(
            f"{name}: its pattern has {unlike!r:.60}, which the regex engine of tokenizers reads "
            f"in another way than ours, so that ids could differ: {pattern!r:.200}"
        )
    if _may_be_empty(parts):
        raise TokenizerError(
            f"{name}: its pattern can match no text at all, where tokenizers cuts and we do not, "
            f"so that ids could differ: {pattern!r:.200}"
        )


def _is_other(part: str, index: int) -> bool:
    if part.startswith("[") and len(part) > 1:
        return _OTHERWISE_IN_CLASS.search(part) is not None
    if part == "(?i)":  # elsewhere in a pattern, Oniguruma treats the rest as a group
        return index > 0
    minimum, _, maximum = part.strip("{}+?").partition(",")
    turned = (
        part.startswith("{")
        and minimum.isdigit()
        and maximum.isdigit()
        and int(minimum) > int(maximum)
    )
    return turned or _OTHERWISE.fullmatch(part) is not None


def _may_be_empty(parts: list[str]) -> bool:
    """Return whether a match can be empty, from the minimum of each part."""
    needs = "".join(map(_need, parts))
    while (shorter := _GROUP.sub(lambda group: _need_of_any(group[1]), needs)) != needs:
        needs = shorter
    return _need_of_any(needs) != "c"


def _need(part: str) -> str:
    """Return c for a character, e for none, ? for an optional part, or a group unchanged."""
    if part in ("|", ")"):
        return part
    if part.startswith("("):
        return "e" if part == "(?i)" else "(|" if part[-1] in "=!" else "("
    if part[0] in "*?" or re.match(r"\{0*[,}]", part):
        return "?"
    if part[0] == "+" or re.match(r"\{\d", part):
        return ""
    return "e" if part in (r"\A", r"\z") else "c"


def _need_of_any(alternatives: str) -> str:
    return "c" if all(map(_ALWAYS.search, alternatives.split("|"))) else "e"
