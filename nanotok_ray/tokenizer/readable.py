"""The readable tokenizer file, which holds a tokenizer as lines of ASCII; the `.tiktoken` file."""

import base64
import hashlib
import json

from nanotok_ray.errors import TokenizerError, other_format
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.model import IN_ORDER, Model

FIRST_LINE = "nanotok-tokenizer 1"
FIRST_LINE_WITH_BYTES = "nanotok-tokenizer 2"
FIRST_LINE_CONTINUED = "nanotok-tokenizer 4"

MAX_READABLE_BYTES = 64 << 20
"""Enough for about five million merges; a reader holds all lines of the file in memory."""


def to_readable(model: Model | FileModel) -> bytes:
    """Return the readable file of a model, or the description of the file that defines one."""
    if isinstance(model, FileModel):
        return model.description.to_bytes()
    first_line, more = FIRST_LINE, []
    if model.byte_order != IN_ORDER or model.continuations:
        first_line, more = FIRST_LINE_WITH_BYTES, [f"bytes {model.byte_order.hex()}"]
    if model.continuations:
        first_line = FIRST_LINE_CONTINUED
        more += [f"continuations {len(model.continuations)}"]
        more += [f"{merge} {number}" for merge, number in model.continuations]
    lines = [
        first_line,
        f"unicode {model.unicode_version}",
        f"pattern {json.dumps(model.pattern)}",
        *more,
        f"special_tokens {len(model.special_tokens)}",
        *(f"{number} {json.dumps(name)}" for name, number in model.special_tokens.items()),
        f"merges {len(model.merges)}",
        *(f"{left} {right}" for left, right in model.merges),
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def sha256_of(model: Model | FileModel) -> str:
    """Return the sha256 of the readable file of a model, in hex; it identifies the tokenizer."""
    return hashlib.sha256(to_readable(model)).hexdigest()


def from_readable(data: bytes, *, name: str) -> Model:
    """Read a readable file; only the exact bytes that `to_readable` returns are accepted.

    Raises:
        TokenizerError: The bytes differ; the message names the file and the line.
    """
    lines = _Lines(data, name=name)
    first_line = lines.next()
    if first_line not in {FIRST_LINE, FIRST_LINE_WITH_BYTES, FIRST_LINE_CONTINUED}:
        raise TokenizerError(other_format(name, first_line, FIRST_LINE_CONTINUED))
    unicode_version = lines.value_of("unicode")
    pattern = lines.text(lines.value_of("pattern"))
    byte_order = IN_ORDER
    if first_line != FIRST_LINE:
        byte_order = lines.hexadecimal(lines.value_of("bytes"))
    continuations = lines.pairs("continuations") if first_line == FIRST_LINE_CONTINUED else ()
    special_tokens: dict[str, int] = {}
    for _ in range(lines.number(lines.value_of("special_tokens"))):
        number, _, text = lines.next().partition(" ")
        special_tokens[lines.text(text)] = lines.number(number)
    merges = lines.pairs("merges")
    try:
        model = Model(
            pattern=pattern,
            unicode_version=unicode_version,
            merges=merges,
            special_tokens=special_tokens,
            byte_order=byte_order,
            continuations=continuations,
        )
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from error
    lines.check_same(to_readable(model))
    return model


class _Lines:
    """The lines of a file, and the current position for messages."""

    def __init__(self, data: bytes, *, name: str) -> None:
        self._data = data
        self._lines = data.split(b"\n")
        self._name = name
        self._position = 0

    def next(self) -> str:
        """Return the next line."""
        self._position += 1
        if self._position > len(self._lines) - 1:
            raise self._error("the file ends too early")
        try:
            return self._lines[self._position - 1].decode("ascii")
        except UnicodeDecodeError as error:
            raise self._error("not ASCII") from error

    def value_of(self, key: str) -> str:
        """Return the value of the next line, which must have the form `key value`."""
        actual, _, value = self.next().partition(" ")
        if actual != key or not value:
            raise self._error(f"expected '{key} ...', found {actual[:80]!r}")
        return value

    def number(self, text: str) -> int:
        """Parse a number of the current line."""
        if not (text.isdecimal() and len(text) <= len(str(2**32))):
            raise self._error(f"expected a number, found {text[:80]!r}")
        return int(text)

    def pairs(self, key: str) -> tuple[tuple[int, int], ...]:
        """Return the pairs of numbers that follow the next line, which has their number."""
        pairs = []
        for _ in range(self.number(self.value_of(key))):
            left, _, right = self.next().partition(" ")
            pairs.append((self.number(left), self.number(right)))
        return tuple(pairs)

    def hexadecimal(self, text: str) -> bytes:
        """Parse bytes in hexadecimal of the current line."""
        try:
            return bytes.fromhex(text)
        except ValueError as error:
            raise self._error(f"expected hexadecimal digits, found {text[:80]!r}") from error

    def text(self, text: str) -> str:
        """Parse a JSON string of the current line."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._error(f"expected a JSON string: {error}") from error
        if not isinstance(value, str):
            raise self._error(f"expected a JSON string, found {text[:80]!r}")
        return value

    def check_same(self, canonical: bytes) -> None:
        """Refuse an equivalent file of other bytes: its sha256 would be a different one."""
        if self._data == canonical:
            return
        wanted = canonical.split(b"\n")
        pairs = enumerate(zip(self._lines, wanted, strict=False))
        at = next((at for at, (line, other) in pairs if line != other), len(wanted) - 1)
        self._position = at + 1
        expected = repr(wanted[at].decode("ascii")[:80]) if wanted[at] else "the end of the file"
        raise self._error(f"expected {expected}")

    def _error(self, problem: str) -> TokenizerError:
        return TokenizerError(
            f"{self._name}, line {self._position}: {problem}; pass a tokenizer.txt that "
            "nanotok_ray wrote"
        )


def to_tiktoken_file(model: Model) -> bytes:
    """Return the bytes of the `.tiktoken` file.

    Raises:
        TokenizerError: Two ids have the same bytes.
    """
    ranks = model.ranks().items()
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks)
