"""Generators of spans that are hard for an encoder: letters, runs, periods, tokens of a vocabulary.

Each takes a random generator, a size in bytes and the words of a vocabulary, and returns valid
UTF-8 of that size or up to three bytes less. Invalid UTF-8 cannot be a single span, so "random
bytes" are 0 to 127.
"""

import base64
import string
from collections.abc import Callable, Sequence

import numpy as np

Words = Sequence[bytes]
Draw = Callable[[np.random.Generator, int, Words], bytes]

LETTERS = string.ascii_lowercase.encode()
JS = b"function( e ,t ){return var => ; if( )} ! 0 this. .length && || === [ ] null . n r i".split()
"""Pieces of minified JavaScript."""

MAX_RUN = 5000


def words_of(tokens: Sequence[bytes]) -> list[bytes]:
    """Return the tokens of more than one byte that are valid UTF-8."""
    return [token for token in tokens if len(token) > 1 and is_text(token)]


def is_text(token: bytes) -> bool:
    """Return whether bytes are valid UTF-8."""
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def letters(alphabet: bytes) -> Draw:
    """Draw from an alphabet."""
    symbols = np.frombuffer(alphabet, np.uint8)

    def draw(rng: np.random.Generator, size: int, _words: Words) -> bytes:
        return symbols[rng.integers(0, len(symbols), size)].tobytes()

    return draw


def characters(first: int, last: int) -> Draw:
    """Draw from a range of characters."""
    width = len(chr(first).encode())

    def draw(rng: np.random.Generator, size: int, _words: Words) -> bytes:
        numbers = rng.integers(first, last + 1, size // width).astype("<u4")
        return numbers.tobytes().decode("utf-32-le").encode()

    return draw


def repeated(word: bytes) -> Draw:
    """Repeat a word."""
    return lambda _rng, size, _words: (word * (size // len(word) + 1))[:size]


def base64_text(rng: np.random.Generator, size: int, _words: Words) -> bytes:
    """Write random bytes as base64."""
    return base64.b64encode(rng.bytes(size))[:size]


def javascript(rng: np.random.Generator, size: int, _words: Words) -> bytes:
    """Join pieces of minified JavaScript."""
    return b"".join(JS[number] for number in rng.integers(0, len(JS), size))[:size]


def runs(rng: np.random.Generator, size: int, _words: Words) -> bytes:
    """Repeat random letters, each with a random length on a logarithmic scale."""
    lengths = np.exp(rng.uniform(0, np.log(MAX_RUN), size // 100 + 100)).astype(np.int64)
    drawn = np.frombuffer(letters(LETTERS)(rng, len(lengths), ()), np.uint8)
    return np.resize(np.repeat(drawn, lengths), size).tobytes()


def pieces(rng: np.random.Generator, size: int, words: Words) -> bytes:
    """Cut random tokens at random positions and join their first parts."""
    plain = [word for word in words if word.isascii()]
    chosen = rng.integers(0, len(plain), size)
    cuts = rng.random(size)
    drawn = (plain[number] for number in chosen)
    return b"".join(
        word[: 1 + int(cut * len(word))] for word, cut in zip(drawn, cuts, strict=False)
    )[:size]


def longest(rng: np.random.Generator, size: int, words: Words) -> bytes:
    """Repeat the longest token."""
    return trimmed(repeated(max(words, key=len))(rng, size, words))


def mixture(rng: np.random.Generator, size: int, words: Words) -> bytes:
    """Join runs, periods, tokens and random letters, drawn anew each time."""
    parts: list[bytes] = []
    done = 0
    while done < size:
        parts.append(PARTS[int(rng.integers(len(PARTS)))](rng, words))
        done += len(parts[-1])
    return trimmed(b"".join(parts)[:size])


def part_run(rng: np.random.Generator, _words: Words) -> bytes:
    """Repeat a letter."""
    return letters(LETTERS)(rng, 1, ()) * int(np.exp(rng.uniform(0, np.log(MAX_RUN))))


def part_period(rng: np.random.Generator, _words: Words) -> bytes:
    """Repeat a few letters."""
    period = letters(LETTERS)(rng, int(rng.integers(2, 17)), ())
    return period * int(rng.integers(1, 200))


def part_tokens(rng: np.random.Generator, words: Words) -> bytes:
    """Join tokens, or repeat one."""
    if rng.integers(2):
        return words[int(rng.integers(len(words)))] * int(rng.integers(1, 50))
    return b"".join(words[number] for number in rng.integers(0, len(words), rng.integers(1, 50)))


def part_letters(rng: np.random.Generator, _words: Words) -> bytes:
    """Draw letters."""
    return letters(LETTERS)(rng, int(rng.integers(1, 500)), ())


def trimmed(data: bytes) -> bytes:
    """Return the data without an incomplete character at its end."""
    return data.decode(errors="ignore").encode()


PARTS = (part_run, part_period, part_tokens, part_letters)

PLAIN: dict[str, Draw] = {
    "one letter": repeated(b"a"),
    "random letters": letters(LETTERS),
    "base64": base64_text,
    "spaces": repeated(b" "),
    "CJK": characters(0x4E00, 0x9FA5),
    "emoji": characters(0x1F600, 0x1F64F),
}
"""Kinds of long spans in real text."""

HOSTILE: dict[str, Draw] = {
    "hex": letters(b"0123456789abcdef"),
    "ACGT": letters(b"ACGT"),
    "minified JS": javascript,
    "dashes": repeated(b"-"),
    "ab": repeated(b"ab"),
    "random bytes": letters(bytes(range(128))),
    "runs": runs,
    "pieces of tokens": pieces,
    "longest token": longest,
    "mixture": mixture,
}
"""Kinds of spans that are designed to be slow."""
