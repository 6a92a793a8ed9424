"""Run one learner in this process, from documents in memory to merges, as a whole and by stages.

    python benchmarks/one_learner.py ENGINE RANKS THREADS FOLDER

The script reads the texts of a folder (`corpus.write_texts`), which is not timed, and learns RANKS
ranks with nanochat's pattern; with 256 there is nothing to merge, so that only counting remains.
ENGINES lists the engines. rustbpe takes its threads from RAYON_NUM_THREADS, which must equal
THREADS; its stages are derived from its log, and even with 256 ranks it looks up all pairs after
counting. Prints one line of JSON: seconds, stages, bytes, distinct spans, ranks, and the hash of
the tokens.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from corpus import load_array
from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer, count_spans
from ranks import NUM_BYTES, sha256_of, spell

Figures = dict[str, Any]
Work = Callable[[], Figures]


def main() -> None:
    """Measure what the command line names."""
    engine, ranks, threads, folder = sys.argv[1:]
    array = load_array(Path(folder))
    size = Documents.from_arrow(array).num_bytes
    work = ENGINES[engine](array, int(ranks), int(threads))
    del array
    start = time.perf_counter()
    figures = work()
    figures.setdefault("seconds", time.perf_counter() - start)
    tokens = figures.pop("tokens")()
    found = {"bytes": size, "ranks": len(tokens), "sha256": sha256_of(tokens)}
    print(json.dumps(figures | found))


class Clock:
    """Seconds of consecutive stages."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._last = time.perf_counter()

    def ends(self, stage: str) -> None:
        """Record the end of a stage, at which the next begins."""
        now = time.perf_counter()
        self.stages[stage], self._last = now - self._last, now


def prepare_public(array: pa.Array, ranks: int, threads: int) -> Work:
    """Learn from Python strings by the call that users make: a tokenizer ready to encode."""
    texts = array.to_pylist()

    def work() -> Figures:
        learned = Tokenizer.train_from_iterator(
            texts, ranks, special_tokens=(), num_threads=threads
        )
        return {
            "stages": {},
            "distinct": None,
            "tokens": lambda: list(learned.byte_level_model.tokens),
        }

    return work


def prepare_strings(array: pa.Array, ranks: int, threads: int) -> Work:
    """Learn from Python strings, stage by stage; counting includes their UTF-8."""
    texts = array.to_pylist()
    return lambda: in_stages(
        lambda: count_spans(texts, pattern=SPLIT_PATTERN, threads=threads), ranks, threads
    )


def prepare_arrow(array: pa.Array, ranks: int, threads: int) -> Work:
    """Learn from the Arrow array's own bytes, stage by stage."""

    def count() -> _core.SpanCounts:
        counts = _core.SpanCounts(SPLIT_PATTERN)
        documents = Documents.from_arrow(array)
        counts.update(documents.data, documents.offsets, threads=threads)
        return counts

    return lambda: in_stages(count, ranks, threads)


def in_stages(count: Callable[[], _core.SpanCounts], ranks: int, threads: int) -> Figures:
    """Count, sort and learn."""
    clock = Clock()
    counts = count()
    clock.ends("count")
    _, data, offsets, span_counts = counts.sorted_run()
    clock.ends("sort")
    num_merges = ranks - NUM_BYTES
    merges, *_ = _core.learn([(data, offsets, span_counts)], num_merges=num_merges, threads=threads)
    clock.ends("learn")
    return {
        "seconds": sum(clock.stages.values()),
        "stages": clock.stages,
        "distinct": len(span_counts),
        "tokens": lambda: spell(merges.tolist()),
    }


class LogTimes(logging.Handler):
    """Records when rustbpe has counted, and when it begins to merge."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.distinct = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Record the time of the two messages."""
        message = record.getMessage()
        if message.startswith("Processed "):
            self.clock.ends("count")
            self.distinct = int(message.split()[-2])
        elif message == "Starting merge loop":
            self.clock.ends("index")


def prepare_rustbpe(array: pa.Array, ranks: int, threads: int) -> Work:
    """Learn from Python strings with rustbpe."""
    assert os.environ.get("RAYON_NUM_THREADS") == str(threads), "rustbpe's only handle"
    logging.getLogger().setLevel(logging.INFO)
    import rustbpe  # noqa: PLC0415 - asks for the level when it is imported

    texts = array.to_pylist()
    peer = rustbpe.Tokenizer()

    def work() -> Figures:
        log_times = LogTimes(Clock())
        logging.getLogger("rustbpe").addHandler(log_times)
        peer.train_from_iterator(iter(texts), ranks, pattern=SPLIT_PATTERN)
        log_times.clock.ends("learn")
        assert list(log_times.clock.stages) == ["count", "index", "learn"], "rustbpe logs otherwise"
        ranked = {"tokens": lambda: [bytes(token) for token, _ in peer.get_mergeable_ranks()]}
        return ranked | {"stages": log_times.clock.stages, "distinct": log_times.distinct}

    return work


ENGINES = {
    "nanotok_ray": prepare_public,
    "nanotok_ray, strings in stages": prepare_strings,
    "nanotok_ray, Arrow in stages": prepare_arrow,
    "rustbpe": prepare_rustbpe,
}
"""The preparation of each engine."""


if __name__ == "__main__":
    main()
