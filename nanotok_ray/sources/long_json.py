r"""One line of JSON that is too long to be parsed at once.

Takes the bytes of a line; gives what it says with its long strings still as bytes. Python's own
parser needs up to ten times the line, as its text takes four bytes a character if one of them is an
emoji. Slower than that parser. Does not know fields.
"""

import json
import re
from dataclasses import dataclass

from nanotok_ray.documents.batch import to_utf8

LONG_LINE_BYTES = 16 << 20
"""Lines above this are read in this way."""

_MAX_LONG_STRINGS = 64
_ESCAPE = rb"\\(?:u[0-9a-fA-F]{4}|.)"  # begins with a byte that is found fast
_ESCAPES = re.compile(_ESCAPE + b"(?:" + _ESCAPE + b"){0,4095}", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SIMPLE = {
    rb"\n": b"\n",
    rb"\"": b'"',
    rb"\\": b"\\",
    rb"\t": b"\t",
    rb"\r\n": b"\r\n",
}  # for speed
_BACKSLASH = ord("\\")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A line in which each long string is replaced by one of its own length of `x`."""

    text: str
    strings: tuple[tuple[int, int], ...]
    """Where the bytes between the quotes of each long string begin and end in the line."""
    shortest: int
    """Long string n is `shortest + n` characters in `text`; no other string has so many."""

    def place_of(self, value: str) -> tuple[int, int] | None:
        """Give where a long string is in the line, None if the value is no long string."""
        return self.strings[len(value) - self.shortest] if len(value) >= self.shortest else None


def skeleton_of(line: bytes | bytearray, *, shortest: int | None = None) -> Skeleton:
    """Take the long strings out of a line that is UTF-8.

    >>> skeleton_of(b'{"text": "hello"}', shortest=5).text
    '{"text": "xxxxx"}'
    """
    least = max(len(line) // _MAX_LONG_STRINGS, 1) if shortest is None else shortest
    strings: list[tuple[int, int]] = []
    kept, copied, opening = bytearray(), 0, line.find(b'"')
    while opening >= 0:
        end = _closing_quote(line, opening + 1)
        if end - opening - 1 >= least:
            kept += line[copied : opening + 1] + b"x" * (least + len(strings))
            strings.append((opening + 1, end))
            copied = end
        opening = line.find(b'"', end + 1) if end < len(line) else -1
    kept += line[copied:]
    return Skeleton(text=kept.decode(), strings=tuple(strings), shortest=least)


def decode_string(line: bytes | bytearray, start: int, end: int) -> bytearray:
    r"""Give the UTF-8 of the bytes between the quotes of a JSON string, as `to_utf8` does.

    Raises:
        json.JSONDecodeError: it holds an escape that is none, or a control character.

    >>> decode_string(rb'"a\u00e9"', 1, 8).decode()
    'aé'
    """
    if control := _CONTROL.search(line, start, end):
        raise json.JSONDecodeError("Invalid control character at", "", control.start())
    text, position, half = bytearray(), start, ""
    for run in _ESCAPES.finditer(line, start, end):
        if run.start() > position:
            text += to_utf8(half) + line[position : run.start()]
            half = ""
        position = run.end()
        if not half and (simple := _SIMPLE.get(run[0])):
            text += simple
            continue
        decoded = half + _decode_escapes(run)
        half = decoded[-1] if "\ud800" <= decoded[-1] < "\udc00" else ""
        text += to_utf8(decoded[: len(decoded) - len(half)])
    text += to_utf8(half)
    with memoryview(line) as view:
        text += view[position:end]
    return text


def _decode_escapes(run: "re.Match[bytes]") -> str:
    try:
        return str(json.loads(f'"{run[0].decode()}"'))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise json.JSONDecodeError("Invalid escape", "", run.start()) from None


def _closing_quote(line: bytes | bytearray, start: int) -> int:
    """Give the place of the quote that ends a string, the length of the line if there is none."""
    end = line.find(b'"', start)
    while end >= 0:
        backslashes = end
        while backslashes > start and line[backslashes - 1] == _BACKSLASH:
            backslashes -= 1
        if (end - backslashes) % 2 == 0:
            return end
        end = line.find(b'"', end + 1)
    return len(line)
