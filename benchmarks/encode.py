"""Measure encoding in new processes, with peers, on one thread, and compare the ids.

    python benchmarks/encode.py --corpus NAME:LEARN_GLOB:TIME_GLOB --corpus ... [--save]

For each corpus, tokenizers are learned from the first files and the second files are timed. The
pattern of a row is one that the peer supports: nanochat's for tiktoken's `encode_ordinary`,
cl100k's for gigatoken's `encode_batch` of one buffer, Llama 3's (`gpt4`) for `encode` of
tokenizers 1.0.0rc3, which refuses the other two. Timed are the first call of a process, the second
half of the texts after the first half, and the sixth call on the same texts; nanotok_ray also with
caches of 32 MiB per thread and from a list of str (`peers.encode_texts`). The last table is
splitting alone at every CPU level, all texts as one document. Ratios are medians over rounds. The
ids of all engines with the same pattern must be equal. A peer that is not installed is skipped.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from corpora import TEXTS_NAME, TIMED_FORM, Corpus, load_texts, make_folder, timed_corpus
from frame import (
    Figures,
    Rows,
    Runs,
    assert_same,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    ratio,
    run,
    show,
    version_of,
)
from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from peers import encode_texts

OURS = "nanotok_ray"
PEERS = {"nanochat": "tiktoken", "cl100k": "gigatoken", "gpt4": "tokenizers"}
CALLS = {
    "nanochat": {"first": ["first"]},
    "cl100k": {"six": ["first", "sixth"], "halves": ["half"]},
    "gpt4": {"first": ["first"]},
}
"""The calls of a process by pattern, and which of its figures are rows."""
VARIANTS = {"nanochat": [f"{OURS}, list"], "cl100k": [f"{OURS}, 32 MiB"], "gpt4": []}

SPLITTING_CALLS = 5
COMPARED = 4 * 2**20
"""Bytes whose spans are compared at all levels."""


def main() -> None:
    """Measure all corpora of the command line."""
    command = parser(__doc__, vocab_size=32768, repeats=5)
    command.add_argument(
        "--corpus", action="append", type=timed_corpus, required=True, metavar=TIMED_FORM
    )
    options = command.parse_args()
    rows = [row for corpus in options.corpus for row in measure(corpus, options)]
    names = [corpus.name for corpus in options.corpus]
    row = {"repeats": options.repeats, "rows": rows}
    finish("encode", names, row, peers=PEERS.values(), save=options.save)


def measure(corpus: Corpus, options: argparse.Namespace) -> Rows:
    """Prepare a corpus, and measure all its rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_folder(corpus, folder, PEERS, options.vocab_size)
        row = {"corpus": corpus.name, "vocab_size": options.vocab_size, **facts}
        rows = [show(corpus.name, row)]
        for pattern in PEERS:
            rows += encoding(corpus.name, pattern, folder, options.repeats)
        return rows + splitting(corpus.name, folder, options.repeats)


def encoding(corpus: str, pattern: str, folder: Path, repeats: int) -> Rows:
    """Run the engines of a pattern in turn; stop if their ids differ."""
    engines = [OURS, *VARIANTS[pattern]]
    if version_of(PEERS[pattern]):
        engines.append(PEERS[pattern])
    rows = []
    for calls, figures in CALLS[pattern].items():
        file, texts = folder / pattern, folder / TEXTS_NAME
        runs = in_turn(
            {each: partial(fresh, encode_texts, each, file, texts, calls) for each in engines},
            repeats,
        )
        assert_same(runs, "ids", f"{corpus}, {pattern}")
        for figure in figures:
            rows += rows_of(runs, PEERS[pattern], corpus=corpus, pattern=pattern, call=figure)
    return rows


def rows_of(runs: Runs, base: str, *, corpus: str, pattern: str, call: str) -> Rows:
    """Print and return a row for each engine; ratios refer to `base`, if it ran."""
    rows = []
    for engine, own in runs.items():
        row: Figures = {"corpus": corpus, "pattern": pattern, "call": call, "engine": engine}
        rate = own[0]["bytes"] / 1e6 / median(own, call)
        row["megabytes_per_second"] = round(rate, 1)
        row[f"ratio_to_{base}"] = (
            round(ratio(runs, base, engine, call), 2) if base in runs else None
        )
        rows.append(show("", row))
    return rows


def splitting(corpus: str, folder: Path, repeats: int) -> Rows:
    """Split at every level of this CPU, in turn; stop if the spans differ."""
    levels, texts = _core.cpu_levels(), folder / TEXTS_NAME
    runs = in_turn(
        {each: partial(fresh, split_all, texts, env={"NANOTOK_CPU": each}) for each in levels},
        repeats,
    )
    assert_same(runs, "answers", f"{corpus}, splitting")
    assert all(each["level"] == level for level, own in runs.items() for each in own)
    return rows_of(runs, levels[0], corpus=corpus, pattern="nanochat", call="seconds")


def split_all(texts: str) -> Figures:
    """Time visiting all spans of all texts as one document, without storing them."""
    splitter = _core.Splitter(SPLIT_PATTERN)
    document = load_texts(Path(texts)).data.tobytes()
    seconds, gaps = [], 0
    for _ in range(SPLITTING_CALLS):
        start = time.perf_counter()
        gaps = splitter.count_gaps(document)
        seconds.append(time.perf_counter() - start)
    lengths = json.dumps([len(span) for span in splitter.split(document[:COMPARED])])
    return {
        "level": _core.cpu_level(),
        "bytes": len(document),
        "seconds": statistics.median(seconds),
        "answers": f"{gaps} gaps, {hashlib.sha256(lengths.encode()).hexdigest()}",
    }


if __name__ == "__main__":
    run(main)
