"""Measure long single spans with tiktoken and gigatoken, hostile spans, and linearity.

    python benchmarks/spans.py --learn GLOB[,GLOB...] [--seed 1] [--save]

The script learns a tokenizer (nanochat's pattern) and encodes with its merges and a pattern that
matches everything: each input is ONE span, whereas nanochat's pattern would split base64 or code.
Four tables, one thread: six spans of 1 MB, the first call of a process, engines in turn (gigatoken
only if its cl100k keeps the span whole); the same and hostile spans, medians of calls in this
process; many mixtures of 64 KiB, each once; ns per byte from 1 KiB to 64 MiB. All ids of inputs up
to 1 MiB are compared with tiktoken's `_encode_single_piece`; those of larger ones are decoded and
compared with the input.
"""

import base64
import hashlib
import statistics
import string
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from corpora import read_texts
from frame import (
    Figures,
    assert_same,
    files_of,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    run,
    show,
    version_of,
)
from nanotok_ray.counts import split
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer
from peers import gigatoken_of

Words = Sequence[bytes]
Draw = Callable[[np.random.Generator, int, Words], bytes]

EVERYTHING = r"(?s:.)+"
MEGABYTE = 1_000_000
SMALL = 2**16
COMPARED = 2**20
"""Inputs up to this size are compared with tiktoken, which takes 0.3 s for it."""
SIZES = (2**10, 2**15, 2**20, 2**26)
SIZED = ("one letter", "random letters", "base64", "CJK", "mixture")
PEERS = ("tiktoken", "gigatoken")
TIMEOUT = 60
"""Time limit of a peer for a span in seconds."""

LETTERS = string.ascii_lowercase.encode()
JS = b"function( e ,t ){return var => ; if( )} ! 0 this. .length && || === [ ] null . n r i".split()
"""Pieces of minified JavaScript."""
MAX_RUN = 5000


def main() -> None:
    """Measure on what the command line names."""
    command = parser(__doc__, vocab_size=32768, repeats=5, inputs=1000, largest=SIZES[-1], seed=1)
    command.add_argument("--learn", type=files_of, metavar="GLOB[,GLOB...]", required=True)
    options = command.parse_args()
    tokenizer = Tokenizer.train_from_iterator(read_texts(options.learn), options.vocab_size)
    bench = Bench(tokenizer, options.seed, options.repeats)
    row: Figures = {name: getattr(options, name) for name in ("seed", "repeats", "vocab_size")}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        row["peers_1MB"] = {kind: bench.beside_peers(kind, Path(folder)) for kind in PLAIN}
    row["spans_1MB"] = {kind: bench.megabyte(kind) for kind in PLAIN | HOSTILE}
    row["mixtures_64KiB"] = bench.mixtures(options.inputs)
    row["nanoseconds_per_byte"] = {kind: bench.sizes(kind, options.largest) for kind in SIZED}
    names = [path.parent.name for path in options.learn]
    finish("spans", names, row, peers=PEERS, save=options.save)


def whole_text(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer of the same merges for which every text is one span."""
    return Tokenizer(replace(tokenizer.byte_level_model, pattern=EVERYTHING))


class Bench:
    """The tokenizer, tiktoken with its merges, and the seed of every input."""

    def __init__(self, tokenizer: Tokenizer, seed: int, repeats: int) -> None:
        self._whole = whole_text(tokenizer)
        self._peer: Any = tokenizer.to_tiktoken()
        tokens = tokenizer.byte_level_model.tokens
        self._words = [each for each in tokens if len(each) > 1 and trimmed(each) == each]
        self._seed, self._repeats = seed, repeats

    def beside_peers(self, kind: str, folder: Path) -> Figures:
        """Encode a span with all engines, each in separate processes: MB/s, or why not."""
        span = self._draw(kind, MEGABYTE)
        file = folder / "span"
        file.write_bytes(span)
        row: Figures = {"nanotok_ray": ""} | {each: why_not(each, folder, span) for each in PEERS}
        works = {
            each: partial(fresh, encode_span, each, folder, file) for each in row if not row[each]
        }
        runs = in_turn(works, self._repeats)
        assert_same(runs, "ids", kind)
        row |= {each: round(len(span) / 1e6 / median(runs[each]), 1) for each in runs}
        return show(f"1 MB of {kind}, first call, MB/s", row)

    def megabyte(self, kind: str) -> float:
        """Encode a span of 1 MB in this process; return MB/s."""
        span = self._draw(kind, MEGABYTE)
        rate = round(len(span) / 1e6 / statistics.median(self._seconds(span, self._repeats)), 1)
        print(f"1 MB of {kind}, MB/s: {rate}", flush=True)
        return rate

    def mixtures(self, inputs: int) -> Figures:
        """Encode many mixtures, each once, so that nothing is cached; return MB/s."""
        spans = (self._draw("mixture", SMALL, number) for number in range(inputs))
        rates = [len(span) / 1e6 / self._seconds(span, 1)[0] for span in spans]
        slowest = int(np.argmin(rates))
        row = {"inputs": inputs, "median": round(statistics.median(rates), 1)}
        row |= {"slowest": round(rates[slowest], 1), "slowest_number": slowest}
        return show("mixtures of 64 KiB, MB/s", row)

    def sizes(self, kind: str, largest: int) -> Figures:
        """Encode spans of every size; the time is linear if ns per byte is constant."""
        row: Figures = {}
        for size in [each for each in SIZES if each <= largest]:
            span = self._draw(kind, size)
            calls = self._repeats if size >= MEGABYTE else 100 * self._repeats
            seconds = statistics.median(self._seconds(span, max(1, min(calls, 2**27 // size))))
            row[str(size)] = round(seconds / len(span) * 1e9, 1)
        return show(f"{kind}, ns a byte by bytes", row)

    def _draw(self, kind: str, size: int, number: int = 0) -> bytes:
        rng = np.random.default_rng([self._seed, size, number])
        return (PLAIN | HOSTILE)[kind](rng, size, self._words)

    def _seconds(self, span: bytes, calls: int) -> list[float]:
        """Time calls, and stop if the ids are wrong."""
        documents = Documents.from_bytes([span])
        seconds = []
        ids: npt.NDArray[Any] = np.empty(0, np.uint16)
        for _ in range(calls):
            start = time.perf_counter()
            ids, _ = self._whole.encode_documents(documents)
            seconds.append(time.perf_counter() - start)
        if len(span) <= COMPARED:
            expected = self._peer._encode_single_piece(span)  # noqa: SLF001 - past its pattern
            assert ids.tolist() == expected, f"ids differ from tiktoken's: {span[:60]!r}"
        else:
            assert self._whole.decode_bytes(ids) == span, f"not decoded: {span[:60]!r}"
        return seconds


def why_not(engine: str, folder: Path, span: bytes) -> str:
    """Return the reason why a peer is skipped, if it is; a slow one is tried once."""
    if version_of(engine) is None:
        return "not installed"
    if engine == "gigatoken" and len(split(span.decode(), pattern="cl100k")) > 1:
        return "cuts it"
    try:
        fresh(encode_span, engine, folder, folder / "span", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"over {TIMEOUT} s"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return ""


def encode_span(engine: str, folder: str, file: str) -> Figures:
    """Encode a file as one span: seconds of the first call, and hash of the ids."""
    span = Path(file).read_bytes()
    work: Callable[[], Any]
    if engine == "gigatoken":
        import gigatoken

        encode, source = gigatoken_of(folder).encode_batch, gigatoken.BytesSource(span)
        work = lambda: encode(source, parallel=False)  # noqa: E731 - as the others
    elif engine == "tiktoken":
        peer: Any = Tokenizer.load(folder).to_tiktoken()
        work = partial(peer._encode_single_piece, span)  # noqa: SLF001 - past its pattern
    else:
        own = whole_text(Tokenizer.load(folder))
        work = partial(own.encode_documents, Documents.from_bytes([span]))
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    ids = result if engine == "tiktoken" else result[0]
    return {
        "seconds": seconds,
        "ids": hashlib.sha256(np.asarray(ids, dtype="<u4").tobytes()).hexdigest(),
    }


def letters(alphabet: bytes) -> Draw:
    """Draw from an alphabet."""
    symbols = np.frombuffer(alphabet, np.uint8)
    return lambda rng, size, _words: symbols[rng.integers(0, len(symbols), size)].tobytes()


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


def runs_of_letters(rng: np.random.Generator, size: int, _words: Words) -> bytes:
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
        parts.append(part_of(int(rng.integers(4)), rng, words))
        done += len(parts[-1])
    return trimmed(b"".join(parts)[:size])


def part_of(kind: int, rng: np.random.Generator, words: Words) -> bytes:
    """Draw a run of a letter, a period, tokens or one repeated token, or letters."""
    draw = letters(LETTERS)
    if kind == 0:
        return draw(rng, 1, ()) * int(np.exp(rng.uniform(0, np.log(MAX_RUN))))
    if kind == 1:
        return draw(rng, int(rng.integers(2, 17)), ()) * int(rng.integers(1, 200))
    if kind == 3:  # noqa: PLR2004 - the last
        return draw(rng, int(rng.integers(1, 500)), ())
    if rng.integers(2):
        return words[int(rng.integers(len(words)))] * int(rng.integers(1, 50))
    return b"".join(words[number] for number in rng.integers(0, len(words), rng.integers(1, 50)))


def trimmed(data: bytes) -> bytes:
    """Return the part of the data that is valid UTF-8."""
    return data.decode(errors="ignore").encode()


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
    "runs": runs_of_letters,
    "pieces of tokens": pieces,
    "longest token": longest,
    "mixture": mixture,
}
"""Kinds of spans that are designed to be slow; "random bytes" are 0 to 127, so valid UTF-8."""


if __name__ == "__main__":
    run(main)
