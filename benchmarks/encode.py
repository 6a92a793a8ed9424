"""Encoding in fresh processes, beside tiktoken and gigatoken: one thread, answers compared.

    python benchmarks/encode.py --corpus NAME:LEARN_GLOB:TIME_GLOB --corpus ... [--save]

For each corpus, tokenizers are made from the first files (nanochat's pattern, and cl100k for
gigatoken, which calls it gpt4 and has no way to take the other) and the second files are timed.
Three tables: nanochat's pattern, the first call of a process, beside tiktoken's `encode_ordinary`;
cl100k, the first call and the sixth, beside gigatoken's `encode_batch` of one buffer; splitting
alone at every CPU level, by `Splitter.count_gaps` on all texts as one document. Each measurement is
a process of its own, engines take turns, and medians are shown. The ids of all engines with one
pattern must be equal. gigatoken is left out, with a word, where it is not installed. The last line
of stdout is one JSON document, which --save adds to results/encode.jsonl.
"""

import argparse
import importlib.util
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import Corpus, make_folder, parse_corpus
from fresh import assert_same, fresh, in_turn, median
from nanotok_ray import _core

OURS = "nanotok_ray"
PEERS = {"nanochat": "tiktoken", "cl100k": "gigatoken"}
CALLS = {"nanochat": ("cold",), "cl100k": ("cold", "warm")}
NUM_CALLS = {"nanochat": 1, "cl100k": 6}
SPLITTING_CALLS = 5


def main() -> None:
    """Measure all corpora of the command line."""
    options = parse()
    rows = [row for corpus in options.corpus for row in measure(corpus, options)]
    names = [corpus.name for corpus in options.corpus]
    row = about("encode", names, PEERS.values()) | {"repeats": options.repeats, "rows": rows}
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--corpus",
        action="append",
        type=parse_corpus,
        required=True,
        metavar="NAME:LEARN_GLOB:TIME_GLOB",
    )
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="add to results/encode.jsonl")
    return parser.parse_args()


def measure(corpus: Corpus, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Make what a corpus needs, and measure all its rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_folder(corpus, folder, PEERS, vocab_size=options.vocab_size)
        tell_facts(corpus, facts)
        rows: list[dict[str, Any]] = [
            {"corpus": corpus.name, "vocab_size": options.vocab_size, **facts}
        ]
        for pattern in PEERS:
            rows += encoding(corpus.name, pattern, folder, facts["timed_bytes"], options.repeats)
        return rows + splitting(corpus.name, folder, options.repeats)


def tell_facts(corpus: Corpus, facts: dict[str, Any]) -> None:
    """Print what is timed."""
    print(
        f"{corpus.name}: learned from {facts['learned_bytes'] / 1e6:.1f} MB in {len(corpus.learn)} "
        f"files, timed {facts['timed_bytes'] / 1e6:.1f} MB in {len(corpus.time)} others; "
        f"{facts['known_documents_left_out']} known documents left out",
        flush=True,
    )


def encoding(
    corpus: str, pattern: str, folder: Path, size: int, repeats: int
) -> list[dict[str, Any]]:
    """Run the engines of a pattern in turn; stop if their ids differ."""
    engines = [OURS, PEERS[pattern]]
    if importlib.util.find_spec(PEERS[pattern]) is None:
        print(f"{corpus}, {pattern}: {engines.pop()} is not installed: no comparison")
    works = {
        engine: partial(fresh, "engines.py", engine, pattern, NUM_CALLS[pattern], folder)
        for engine in engines
    }
    runs = in_turn(works, repeats)
    assert_same(runs, "ids", f"{corpus}, {pattern}")
    rows = []
    for call in CALLS[pattern]:
        rates = {name: size / 1e6 / median(each, call) for name, each in runs.items()}
        rows += [row_of((corpus, pattern, call), name, rates, PEERS[pattern]) for name in rates]
    return rows


def row_of(
    key: tuple[str, str, str], engine: str, rates: dict[str, float], base: str
) -> dict[str, Any]:
    """Print and give one row of a table; its ratio is to the engine called `base`, if it ran."""
    corpus, pattern, call = key
    ratio = round(rates[engine] / rates[base], 2) if base in rates else None
    beside = f"{ratio:6.2f} x {base}" if ratio and engine != base else ""
    print(f"{corpus:<13}{pattern:<10}{call:<6}{engine:<25}{rates[engine]:7.1f} MB/s{beside}")
    return {
        "corpus": corpus,
        "pattern": pattern,
        "call": call,
        "engine": engine,
        "megabytes_per_second": round(rates[engine], 1),
        f"ratio_to_{base}": ratio,
    }


def splitting(corpus: str, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Split at every level of this CPU, in turn; stop if the spans differ."""
    levels = _core.cpu_levels()
    works = {
        level: partial(fresh, "splitting.py", SPLITTING_CALLS, folder, env={"NANOTOK_CPU": level})
        for level in levels
    }
    runs = in_turn(works, repeats)
    assert_same(runs, "answers", f"{corpus}, splitting")
    assert all(run["level"] == level for level, each in runs.items() for run in each)
    rates = {name: each[0]["bytes"] / 1e6 / median(each, "seconds") for name, each in runs.items()}
    return [row_of((corpus, "nanochat", "split"), level, rates, levels[0]) for level in levels]


if __name__ == "__main__":
    main()
