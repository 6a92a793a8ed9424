"""Measure feeding a trainer from shards on one core, with nanochat's method: packed rows.

    python benchmarks/reader.py --texts 'english_more/*.parquet' --chats 'chat/*.jsonl' [--save]
    python benchmarks/reader.py --quick --texts GLOB --chats GLOB

A tokenizer is learned from the first parquet file, and the job writes the shards of all files;
neither is timed. The last parquet file is for validation in all methods. Each method runs in fresh
processes in turn, on one CPU, with batches of 32 rows of 2,048 tokens and all files in the page
cache; medians are printed:

- nanochat: its method, text parquet to batches, in plain Python with pyarrow and tiktoken, without
  torch (`one_nanochat_reader.py`)
- nanochat's rows: the same batches from the shards, by `NanochatLoader`
- best-fit, windows, conversations, best-fit shuffled by document: by `Loader`

Printed are tokens per second after the first batch, without padding; the time to the first batch
from the start of the process and from opening; the highest resident memory, which includes pages
of mapped shards; the speed of planning rows without filling them; and the time of opening an index
of 200,000 shards. The batches of the first two methods must be equal, and each method must return
the same in every round. Goals: 50 times nanochat's method, and windows at 200 million tokens per
second. The last line of stdout is one JSON document, which --save appends to results/reader.jsonl.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

from about import about, finish
from fresh import Figures, assert_same, fresh, in_turn, median, median_ratio
from one_reader import WAYS
from packed_rows import LENGTH, ROWS
from reader_corpus import ReaderCorpus, make_corpus

PEER, SAME_ROWS, INDEX = "nanochat", "nanochat's rows", "index"
PLANNED = {f"{way}, planned": way for way in (SAME_ROWS, "best-fit")}

QUICK = {"batches": 8, "times": 4, "repeats": 1, "vocab_size": 8192}


def main() -> None:
    """Measure what the command line names."""
    options = parse()
    texts, chats = files_of(options.texts), files_of(options.chats)
    with tempfile.TemporaryDirectory() as name:
        corpus = make_corpus(
            Path(name), texts, chats, vocab_size=options.vocab_size, shards=options.shards
        )
        works = works_of(corpus, batches=options.batches, times=options.times)
        warm_up(works)
        runs = in_turn(works, options.repeats)
    index = runs.pop(INDEX)
    planned = {name: runs.pop(name) for name in PLANNED}
    assert_same({way: runs[way] for way in (PEER, SAME_ROWS)}, "answer", "batches")
    for way, each in runs.items():
        assert_same({way: each}, "answer", "rounds")
    files = [f"{path.parent.name}/{path.stem}" for path in [*texts, *chats]]
    row = about("reader", files, ("tiktoken", "pyarrow", "numpy"))
    row |= {name: getattr(options, name) for name in (*QUICK, "shards")}
    row |= {"rows": ROWS, "length": LENGTH}
    row |= {"ways": [record_of(way, each) for way, each in runs.items()]}
    row |= record_beside(runs) | record_planned(planned) | record_index(index)
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--texts", required=True, metavar="GLOB", help="parquet, two files or more")
    parser.add_argument("--chats", required=True, metavar="GLOB", help="JSON lines of messages")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--batches", type=int, default=128, help="of nanochat's method, compared")
    parser.add_argument("--times", type=int, default=16, help="so many times as many of ours")
    parser.add_argument("--shards", type=int, default=200_000, help="of the index that is opened")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help=f"see that it runs: {QUICK}")
    parser.add_argument("--save", action="store_true", help="add to results/reader.jsonl")
    if parser.parse_args().quick:
        parser.set_defaults(**QUICK)
    return parser.parse_args()


def files_of(pattern: str) -> list[Path]:
    """Return the files of a glob."""
    files = sorted(map(Path, glob(pattern)))  # noqa: PTH207 - absolute globs
    assert files, f"{pattern!r} matches no file"
    return files


def works_of(corpus: ReaderCorpus, *, batches: int, times: int) -> dict[str, Callable[[], Figures]]:
    """Return the methods of reading the corpus, and the opening of the index."""

    def peer() -> Figures:
        where = (corpus.texts, corpus.tokenizer, batches, batches)
        return fresh("one_nanochat_reader.py", *where, time.monotonic())

    def own(way: str) -> Figures:
        where = (way, corpus.output, batches * times, batches)
        return fresh("one_reader.py", *where, time.monotonic())

    return {
        PEER: peer,
        **{way: partial(own, way) for way in WAYS},
        **{
            name: partial(fresh, "one_reader.py", "planned", way, corpus.output, batches * times)
            for name, way in PLANNED.items()
        },
        INDEX: partial(fresh, "one_reader.py", INDEX, corpus.many),
    }


def warm_up(works: dict[str, Callable[[], Figures]]) -> None:
    """Read all files into the page cache, and compile Python modules."""
    for work in works.values():
        work()


def record_of(way: str, each: list[Figures]) -> dict[str, Any]:
    """Print and return the figures of one method."""
    record: dict[str, Any] = {
        "way": way,
        "tokens_per_second": round(1 / median(each, "seconds")),
        "tokens_per_cpu_second": round(1 / median(each, "cpu")),
        "filled": round(median(each, "filled"), 4),
        "start_to_first": round(median(each, "start_to_first"), 3),
        "open_to_first": round(median(each, "open_to_first"), 4),
        "peak_megabytes": round(median(each, "peak_bytes") / 1e6),
    }
    print(
        f"{way:<20}{record['tokens_per_second'] / 1e6:>8.2f} million tokens/s,"
        f"{100 * record['filled']:>6.1f}% filled, first batch{record['start_to_first']:>6.2f} s "
        f"after the start,{record['open_to_first']:>7.3f} s after opening,"
        f"{record['peak_megabytes']:>5} MB"
    )
    return record


def record_beside(runs: dict[str, list[Figures]]) -> dict[str, Any]:
    """Print and return the ratio of speeds for the same rows."""
    ratio = round(median_ratio(runs, PEER, SAME_ROWS), 1)
    print(f"{SAME_ROWS}: {ratio} x {PEER}'s method, the same batches")
    return {"ratio_to_nanochat": ratio}


def record_planned(runs: dict[str, list[Figures]]) -> dict[str, Any]:
    """Print and return the speed of planning rows, which is the cost of resuming."""
    rates = {name: round(1 / median(each, "seconds")) for name, each in runs.items()}
    for name, rate in rates.items():
        print(f"{name}: {rate / 1e6:,.0f} million tokens/s")
    return {"planned_tokens_per_second": rates}


def record_index(each: list[Figures]) -> dict[str, Any]:
    """Print and return the time of opening the large index."""
    seconds = round(median(each, "seconds"), 4)
    print(f"an index of {each[0]['documents']:,} shards is open after {seconds} s")
    return {"index_seconds": seconds}


if __name__ == "__main__":
    main()
