r"""JSON that is not one document a line: a whole file as one array, or values spread over lines.

Takes the decoded start of a file. Does not know sources or fields.
"""

import json
from typing import Final, Literal

Shape = Literal["array", "spread"]
"""`array`: the file is one JSON array of documents. `spread`: its first value takes several lines,
as pretty-printed JSON does."""

BOM: Final = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder(parse_int=float)  # as floats, numbers parse whatever their length
_LITERAL_CHARS = 10
"""Where the text ends inside a literal or an escape, the error is a few characters before it."""


def shape_of(start: bytes, *, is_whole: bool) -> Shape | None:
    r"""Return how the first value of a file lies in its lines; None if nothing is odd about it.

    >>> shape_of(b'[{"text": "a"},\n {"text": "b"}]\n', is_whole=True)
    'array'
    >>> shape_of(b'{\n  "text": "a"\n}\n{\n', is_whole=False)
    'spread'
    >>> shape_of(b'{"text": "a"}\n{"text": "b"}\n', is_whole=True) is None
    True
    """
    text = start.removeprefix(BOM).decode(errors="replace").lstrip()
    if text[:1] not in {"{", "["}:
        return None
    try:
        end = _end_of_first(text, is_whole=is_whole)
        if end is None:
            return None
        if not text[end:].strip() and _holds_documents(text):
            return "array"
    except RecursionError:
        return None
    return "spread" if "\n" in text[:end] else None


def _end_of_first(text: str, *, is_whole: bool) -> int | None:
    """Return where the first value ends, at least the end of a text that is cut; None: no JSON."""
    try:
        return _DECODER.raw_decode(text)[1]
    except json.JSONDecodeError as error:
        is_cut = error.pos >= len(text.rstrip()) - _LITERAL_CHARS
        is_cut |= error.msg.startswith("Unterminated string")
        return len(text) if is_cut and not is_whole else None


def _holds_documents(text: str) -> bool:
    """Tell whether a text is an array whose first element is no message of a conversation."""
    inside = text[1:].lstrip()
    if text[0] != "[" or inside[:1] == "]":
        return False
    try:
        first, _ = _DECODER.raw_decode(inside)
    except json.JSONDecodeError:
        return False
    return not (isinstance(first, dict) and "role" in first)
