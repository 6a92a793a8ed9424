"""Measure encoding in fresh processes, with peers, on one thread, and compare the ids.

    python benchmarks/encode.py --corpus NAME:LEARN_GLOB:TIME_GLOB --corpus ... [--save]

For each corpus, tokenizers are learned from the first files and the second files are timed. The
pattern of a row is one that the peer supports: nanochat's for tiktoken's `encode_ordinary`,
cl100k's for gigatoken's `encode_batch` of one buffer, Llama 3's (`gpt4`) for `encode` of
tokenizers 1.0.0rc3, which refuses the other two. Timed are the first call of a process, the second
half of the texts after the first half, and the sixth call on the same texts; nanotok_ray also with
caches of 32 MiB per thread and from a list of str. The last table is splitting alone at every CPU
level, by `Splitter.count_gaps` on all texts as one document. Each measurement is a separate
process, engines run in turn, and medians are printed; a ratio is the median over rounds. The ids
of all engines with the same pattern must be equal. Peers that are not installed are skipped with a
message. The last line of stdout is one JSON document, which --save appends to
results/encode.jsonl.
"""

import argparse
import importlib.util
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import Corpus, make_folder, parse_corpus
from fresh import Figures, assert_same, fresh, in_turn, median
from nanotok_ray import _core

OURS = "nanotok_ray"
SMALL, AS_LIST = f"{OURS}, 32 MiB", f"{OURS}, list"
PEERS = {"nanochat": "tiktoken", "cl100k": "gigatoken", "gpt4": "tokenizers"}
ENGINES = {"nanochat": [OURS, AS_LIST], "cl100k": [OURS, SMALL], "gpt4": [OURS]}
"""The variants of nanotok_ray for each pattern."""
PASSES = {"nanochat": ["first"], "cl100k": ["six", "halves"], "gpt4": ["first"]}
FIGURES = {"first": ["first"], "six": ["first", "sixth"], "halves": ["half"]}
"""The timed figures of each kind of process."""
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
    """Prepare a corpus, and measure all its rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_folder(corpus, folder, PEERS, vocab_size=options.vocab_size)
        tell_facts(corpus, facts)
        rows: list[dict[str, Any]] = [
            {"corpus": corpus.name, "vocab_size": options.vocab_size, **facts}
        ]
        for pattern in PEERS:
            rows += encoding(corpus.name, pattern, folder, options.repeats)
        return rows + splitting(corpus.name, folder, options.repeats)


def tell_facts(corpus: Corpus, facts: dict[str, Any]) -> None:
    """Print the sizes of the timed texts."""
    print(
        f"{corpus.name}: learned from {facts['learned_bytes'] / 1e6:.1f} MB in {len(corpus.learn)} "
        f"files, timed {facts['timed_bytes'] / 1e6:.1f} MB in {len(corpus.time)} others; "
        f"{facts['known_documents_left_out']} known documents left out",
        flush=True,
    )


def encoding(corpus: str, pattern: str, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Run the engines of a pattern in turn; stop if their ids differ."""
    engines = [*ENGINES[pattern], PEERS[pattern]]
    if importlib.util.find_spec(PEERS[pattern]) is None:
        print(f"{corpus}, {pattern}: {engines.pop()} is not installed: no comparison")
    rows = []
    for passes in PASSES[pattern]:
        works = {
            engine: partial(fresh, "engines.py", engine, pattern, passes, folder)
            for engine in engines
        }
        runs = in_turn(works, repeats)
        assert_same(runs, "ids", f"{corpus}, {pattern}")
        for figure in FIGURES[passes]:
            key = (corpus, pattern, figure)
            rows += [row_of(key, name, runs, PEERS[pattern]) for name in runs]
    return rows


def row_of(
    key: tuple[str, str, str], engine: str, runs: dict[str, list[Figures]], base: str
) -> dict[str, Any]:
    """Print and return one row of a table; its ratio refers to the engine `base`, if it ran."""
    corpus, pattern, figure = key
    rate = runs[engine][0]["bytes"] / 1e6 / median(runs[engine], figure)
    pairs = zip(runs.get(base, []), runs[engine], strict=False)
    ratios = [below[figure] / above[figure] for below, above in pairs]
    ratio = round(statistics.median(ratios), 2) if ratios else None
    beside = f"{ratio:6.2f} x {base}" if ratio and engine != base else ""
    print(f"{corpus:<13}{pattern:<10}{figure:<8}{engine:<23}{rate:7.1f} MB/s{beside}", flush=True)
    return {
        "corpus": corpus,
        "pattern": pattern,
        "call": figure,
        "engine": engine,
        "megabytes_per_second": round(rate, 1),
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
    key = (corpus, "nanochat", "seconds")
    return [row_of(key, level, runs, levels[0]) for level in levels]


if __name__ == "__main__":
    main()
