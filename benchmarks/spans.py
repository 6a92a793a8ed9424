"""Measure long single spans with tiktoken and gigatoken, hostile spans, and linearity.

    python benchmarks/spans.py --learn FILE.parquet ... [--seed 1] [--save]

The script learns a tokenizer (nanochat's pattern) and encodes with its merges and a pattern that
matches everything: each input is ONE span, whereas nanochat's pattern would split base64 or code.
Four tables, one thread: six spans of 1 MB, the first call of a process, engines in turn (gigatoken
only if its cl100k keeps the span whole); the same and hostile spans, medians of calls in this
process; many mixtures of 64 KiB, each once; ns per byte from 1 KiB to 64 MiB. All ids of inputs up
to 1 MiB are compared with tiktoken's `_encode_single_piece`; those of larger ones are decoded and
compared with the input. The last line of stdout is one JSON document, which --save appends to
results/spans.jsonl.
"""

import argparse
import importlib.util
import statistics
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from about import about, finish
from adversaries import HOSTILE, PLAIN, words_of
from corpus import read_texts
from fresh import assert_same, fresh, in_turn, median
from nanotok_ray.counts import split
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer
from one_span import whole_text

if TYPE_CHECKING:
    import tiktoken

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

MEGABYTE = 1_000_000
SMALL = 2**16
COMPARED = 2**20
"""Inputs up to this size are compared with tiktoken, which takes 0.3 s for it."""
SIZES = (2**10, 2**15, 2**20, 2**26)
SIZED = ("one letter", "random letters", "base64", "CJK", "mixture")
PEERS = ("tiktoken", "gigatoken")
TIMEOUT = 60
"""Time limit of a peer for a span in seconds."""


class Bench:
    """The tokenizer, tiktoken with its merges, and the seed of every input."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self.whole = whole_text(tokenizer)
        self.peer: tiktoken.Encoding = tokenizer.to_tiktoken()
        self.words = words_of(tokenizer.byte_level_model.tokens)
        self.seed = seed

    def draw(self, name: str, size: int, number: int = 0) -> bytes:
        """Return the input of a name, which depends on seed, size and number."""
        rng = np.random.default_rng([self.seed, size, number])
        return (PLAIN | HOSTILE)[name](rng, size, self.words)

    def seconds(self, span: bytes, calls: int) -> list[float]:
        """Time calls, and stop if the ids are wrong."""
        documents = Documents.from_bytes([span])
        seconds = []
        ids: Ids = np.empty(0, np.uint16)
        for _ in range(calls):
            start = time.perf_counter()
            ids, _ = self.whole.encode_documents(documents)
            seconds.append(time.perf_counter() - start)
        if len(span) <= COMPARED:
            expected = self.peer._encode_single_piece(span)  # noqa: SLF001 - past its pattern
            assert ids.tolist() == expected, f"ids differ from tiktoken's: {span[:60]!r}"
        else:
            assert self.whole.decode_bytes(ids) == span, f"not decoded: {span[:60]!r}"
        return seconds


def main() -> None:
    """Measure on what the command line names."""
    options = parse()
    tokenizer = Tokenizer.train_from_iterator(read_texts(options.learn), options.vocab_size)
    bench = Bench(tokenizer, options.seed)
    row = about("spans", [path.parent.name for path in options.learn], PEERS)
    row |= {"seed": options.seed, "repeats": options.repeats, "vocab_size": options.vocab_size}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        row["peers_1MB"] = beside_peers(bench, Path(folder), options.repeats)
    row["spans_1MB"] = megabytes(bench, options.repeats)
    row["mixtures_64KiB"] = mixtures(bench, options.inputs)
    row["nanoseconds_per_byte"] = sizes(bench, options)
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learn", nargs="+", type=Path, metavar="FILE", required=True)
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inputs", type=int, default=1000, help="mixtures of 64 KiB")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="bytes of one span")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="add to results/spans.jsonl")
    return parser.parse_args()


def beside_peers(bench: Bench, folder: Path, repeats: int) -> dict[str, dict[str, float | str]]:
    """Encode the six spans with all engines, each in separate processes."""
    print("1 MB as one span, first call of a process, MB/s")
    rows = {}
    for name in PLAIN:
        span = bench.draw(name, MEGABYTE)
        file = folder / "span"
        file.write_bytes(span)
        rates, works = {}, {}
        for engine in ("nanotok_ray", *PEERS):
            if reason := why_not(engine, folder, span):
                rates[engine] = reason
            else:
                works[engine] = partial(fresh, "one_span.py", engine, folder, file)
        runs = in_turn(works, repeats)
        assert_same(runs, "ids", name)
        row = {each: round(len(span) / 1e6 / median(runs[each], "seconds"), 1) for each in runs}
        rows[name] = row | rates
        print(f"  {name:<18}" + "; ".join(f"{k} {v}" for k, v in rows[name].items()), flush=True)
    return rows


def why_not(engine: str, folder: Path, span: bytes) -> str:
    """Return the reason why an engine is skipped, if it is; a slow engine is tried once."""
    if engine == "nanotok_ray":
        return ""
    if importlib.util.find_spec(engine) is None:
        return "not installed"
    if engine == "gigatoken" and len(split(span.decode(), pattern="cl100k")) > 1:
        return "cuts it"
    try:
        fresh("one_span.py", engine, folder, folder / "span", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"over {TIMEOUT} s"
    except subprocess.CalledProcessError as error:
        return f"failed ({error.returncode})"
    return ""


def megabytes(bench: Bench, repeats: int) -> dict[str, float]:
    """Encode every kind of span."""
    print("1 MB as one span, medians of calls in one process, MB/s; ids equal tiktoken's")
    rows = {}
    for name in PLAIN | HOSTILE:
        span = bench.draw(name, MEGABYTE)
        seconds = statistics.median(bench.seconds(span, repeats))
        rows[name] = round(len(span) / 1e6 / seconds, 1)
        print(f"  {name:<18}{rows[name]:8.1f}", flush=True)
    return rows


def mixtures(bench: Bench, inputs: int) -> dict[str, float]:
    """Encode many mixtures, each once, so that nothing is cached."""
    rates = []
    for number in range(inputs):
        span = bench.draw("mixture", SMALL, number)
        rates.append(len(span) / 1e6 / bench.seconds(span, 1)[0])
    slowest = int(np.argmin(rates))
    row = {"inputs": inputs, "median": round(statistics.median(rates), 1)}
    row |= {"slowest": round(rates[slowest], 1), "slowest_number": slowest}
    print(
        f"{inputs} mixtures of 64 KiB, each once, seed {bench.seed}: median {row['median']} MB/s, "
        f"slowest {row['slowest']} (number {slowest}); ids equal tiktoken's",
        flush=True,
    )
    return row


def sizes(bench: Bench, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Encode spans of every size; the time is linear if ns per byte is constant."""
    print("ns a byte by size of the span; ids equal tiktoken's up to 1 MiB, above decoded")
    rows: dict[str, dict[str, float]] = {}
    for name in SIZED:
        rows[name] = {}
        for size in [each for each in SIZES if each <= options.largest]:
            span = bench.draw(name, size)
            calls = max(1, options.repeats if size >= MEGABYTE else 100 * options.repeats)
            seconds = statistics.median(bench.seconds(span, min(calls, 2**27 // size)))
            rows[name][str(size)] = round(seconds / len(span) * 1e9, 1)
        print(f"  {name:<18}" + "; ".join(f"{k} {v}" for k, v in rows[name].items()), flush=True)
    return rows


if __name__ == "__main__":
    main()
