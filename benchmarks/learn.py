"""Measure learning with rustbpe and ffbpe: whole runs, stages, memory, and synthetic counts.

    python benchmarks/learn.py --corpus NAME:GLOB[,GLOB...] ... [--peer-python PATH] [--save]

Tables, each with its goal; --only selects some of them:

- documents: texts in memory to merges, nanochat's pattern, with rustbpe's `train_from_iterator`;
  goal: ten times as fast
- counting: the same with 256 ranks on one thread, up to the end of counting; rustbpe looks up all
  pairs even then, so its time ends when it logs the end of counting; goal: 300 MB/s, ten times
- loop: the merge loop alone on the corpus's spans and counts, one thread, with ffbpe's; goal: four
  times as fast
- memory: the learner's peak above its input on those counts, with rustbpe's, which accepts no
  counts, so that each span counts 1 for both; goal: 16 B a span + 8 B a byte, a quarter of rustbpe
- synthetic: time and memory for very many distinct spans; goal: 10 million in 60 s
- ties: time by merges if all counts are equal, of which later ones must take no longer than earlier
  ones; and the reasons to stop

Each engine runs in a new process, in turn; medians are printed. The tokens of all engines must be
equal, by a hash of their bytes in rank order, and so must the distinct spans. Files are read
beforehand. ffbpe need not be in this environment: --peer-python is an interpreter that has it.
"""

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median as median_of
from typing import Any

import numpy as np

from corpora import FORM, TEXTS_NAME, Corpus, corpus, load_texts, read_texts, write_texts
from frame import (
    Figures,
    Rows,
    add_quick,
    assert_same,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    peak,
    reset_peak,
    resident,
    run,
    show,
)
from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.tokenizer import Tokenizer, count_spans
from peers import NUM_BYTES, Spans, ffbpe_loop, installed, load_spans, sha256_of, spell
from synthetic import heaps, tail

NUM_SPECIAL_TOKENS = 9
BYTES_PER_SPAN, BYTES_PER_BYTE = 16, 8
"""The formula of the learner's memory."""
WHOLE = r"(?s:.+)"
"""A pattern for which every text is one span."""
ENDS = {True: "vocabulary size reached", False: "no pair left"}
"""The reason why learning ends, by whether the requested number of merges was reached."""
TIED_COUNTS = (1, 2)
TIMES = (1, 2, 4)
FEW_SPANS = 5_000
"""Spans with equal counts of which all pairs are merged, for rustbpe."""

IN_STAGES = ("nanotok_ray, strings in stages", "nanotok_ray, Arrow in stages")
OURS, PEER, LOOP_PEER = "nanotok_ray", "rustbpe", "ffbpe"
ONE_THREAD = {"RAYON_NUM_THREADS": "1"}


def main() -> None:
    """Measure what the command line names."""
    sizes = {"vocab_size": 32768, "threads": 2, "repeats": 3, "spans": 10_000_000}
    sizes |= {"merges": 65_271, "tied_spans": 2_000_000, "tied_merges": 500_000, "seed": 1}
    command = parser(__doc__, **sizes)
    command.add_argument("--corpus", action="append", type=corpus, default=[], metavar=FORM)
    command.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    command.add_argument("--peer-python", default=sys.executable, help="an interpreter with ffbpe")
    small = {"vocab_size": 4096, "repeats": 1, "spans": 100_000, "merges": 5_000}
    add_quick(command, **small, tied_spans=50_000, tied_merges=10_000)
    options = command.parse_args()
    options.peer = fresh(installed, LOOP_PEER, "numpy", python=options.peer_python)["peer"]
    options.ranks = options.vocab_size - NUM_SPECIAL_TOKENS
    row: Figures = {"loop_peer": options.peer, "quick": options.quick}
    row |= {name: getattr(options, name) for name in sizes}
    with tempfile.TemporaryDirectory() as name:
        options.folder = Path(name)
        for each in options.corpus:
            write_corpus(each, options.folder / each.name)
        row |= {table: TABLES[table](options) for table in options.only}
    finish("learn", [each.name for each in options.corpus], row, peers=[PEER], save=options.save)


def write_corpus(own: Corpus, folder: Path) -> None:
    """Write the texts, and their spans and counts, for the timed processes."""
    folder.mkdir()
    write_texts(read_texts(own.learn), folder / TEXTS_NAME)
    documents = load_texts(folder / TEXTS_NAME)
    counts = _core.SpanCounts(SPLIT_PATTERN)
    counts.update(documents.data, documents.offsets)
    spans = Spans(*counts.sorted_run()[1:])
    spans.save(folder)
    facts = {"documents": len(documents), "text_bytes": documents.num_bytes}
    facts |= {"spans": counts.total(), "distinct": len(spans.counts)}
    show(own.name, facts | {"distinct_bytes": len(spans.data)})


def documents_to_merges(options: argparse.Namespace) -> Rows:
    """Learn from texts in memory."""
    return learners(options, (OURS, *IN_STAGES, PEER), options.ranks, options.threads, "seconds")


def counting(options: argparse.Namespace) -> Rows:
    """Count without merges, timing that stage."""
    return learners(options, (*IN_STAGES, PEER), NUM_BYTES, 1, "count")


def learners(
    options: argparse.Namespace, engines: Sequence[str], ranks: int, threads: int, figure: str
) -> Rows:
    """Run engines in turn on each corpus; stop if their tokens or their spans differ."""
    rows: Rows = []
    env = {"RAYON_NUM_THREADS": str(threads)}
    for name in (each.name for each in options.corpus):
        texts = options.folder / name / TEXTS_NAME
        works = {
            each: partial(fresh, learn_texts, each, ranks, threads, texts, env=env)
            for each in engines
        }
        runs = in_turn(works, options.repeats)
        assert_same(runs, "sha256", name)
        assert_same({each: runs[each] for each in (*IN_STAGES, PEER)}, "distinct", name)
        timed = {each: [run | run["stages"] for run in own] for each, own in runs.items()}
        for engine, own in timed.items():
            seconds = median(own, figure)
            stages = {each: median_of(run[each] for run in own) for each in own[0]["stages"]}
            row = {
                "corpus": name,
                "engine": engine,
                "seconds": round(seconds, 4),
                "megabytes_per_second": round(own[0]["bytes"] / 1e6 / seconds, 1),
                "ratio_to_rustbpe": round(median(timed[PEER], figure) / seconds, 2),
                "stages": {stage: round(value, 4) for stage, value in stages.items()},
                "ranks": own[0]["ranks"],
                "sha256": own[0]["sha256"],
            }
            rows.append(show(figure, row))
    return rows


def learn_texts(engine: str, ranks: int, threads: int, texts: str) -> Figures:
    """Learn with one engine from texts in memory, nanochat's pattern, as a whole and by stages."""
    documents = load_texts(Path(texts))
    size = documents.num_bytes
    work = LEARNERS[engine](documents, ranks, threads)
    del documents
    start = time.perf_counter()
    figures = work()
    figures.setdefault("seconds", time.perf_counter() - start)
    tokens = figures.pop("tokens")()
    return figures | {"bytes": size, "ranks": len(tokens), "sha256": sha256_of(tokens)}


class Clock(logging.Handler):
    """Seconds of consecutive stages; as a handler, those of rustbpe by its log."""

    def __init__(self) -> None:
        super().__init__()
        self.stages: dict[str, float] = {}
        self.distinct = self.counted_bytes = 0
        self._last = time.perf_counter()

    def ends(self, stage: str) -> None:
        """Record the end of a stage, at which the next begins."""
        now = time.perf_counter()
        self.stages[stage], self._last = now - self._last, now

    def emit(self, record: logging.LogRecord) -> None:
        """Record when rustbpe has counted, and when it begins to merge."""
        message = record.getMessage()
        if message.startswith("Processed "):
            self.ends("count")
            self.distinct = int(message.split()[-2])
            self.counted_bytes = resident()
        elif message == "Starting merge loop":
            self.ends("index")


def _with_public(documents: Any, ranks: int, threads: int) -> Callable[[], Figures]:
    """Learn from Python strings by the call that users make: a tokenizer ready to encode."""
    texts, learn = strings_of(documents), Tokenizer.train_from_iterator

    def work() -> Figures:
        learned = learn(texts, ranks, special_tokens=(), num_threads=threads)
        tokens = learned.byte_level_model.tokens
        return {"stages": {}, "distinct": None, "tokens": lambda: list(tokens)}

    return work


def _with_strings(documents: Any, ranks: int, threads: int) -> Callable[[], Figures]:
    """Learn from Python strings, stage by stage; counting includes their UTF-8."""
    texts = strings_of(documents)
    count = partial(count_spans, texts, pattern=SPLIT_PATTERN, threads=threads)
    return partial(in_stages, count, ranks, threads)


def _with_arrow(documents: Any, ranks: int, threads: int) -> Callable[[], Figures]:
    """Learn from the Arrow array's own bytes, stage by stage."""

    def count() -> _core.SpanCounts:
        counts = _core.SpanCounts(SPLIT_PATTERN)
        counts.update(documents.data, documents.offsets, threads=threads)
        return counts

    return partial(in_stages, count, ranks, threads)


def strings_of(documents: Any) -> list[str]:
    """Return documents as Python strings."""
    data, ends = documents.data.tobytes(), documents.offsets.tolist()
    return [data[start:end].decode() for start, end in pairwise(ends)]


def in_stages(count: Callable[[], _core.SpanCounts], ranks: int, threads: int) -> Figures:
    """Count, sort and learn."""
    clock = Clock()
    counts = count()
    clock.ends("count")
    run_of_spans = counts.sorted_run()[1:]
    clock.ends("sort")
    merges, *_ = _core.learn([run_of_spans], num_merges=ranks - NUM_BYTES, threads=threads)
    clock.ends("learn")
    return {
        "seconds": sum(clock.stages.values()),
        "stages": clock.stages,
        "distinct": len(run_of_spans[2]),
        "tokens": lambda: spell(merges.tolist()),
    }


def _with_rustbpe(documents: Any, ranks: int, threads: int) -> Callable[[], Figures]:
    """Learn from Python strings with rustbpe."""
    assert os.environ.get("RAYON_NUM_THREADS") == str(threads), "rustbpe's only handle"
    peer, texts = rustbpe_tokenizer(), strings_of(documents)

    def work() -> Figures:
        clock = Clock()
        logging.getLogger("rustbpe").addHandler(clock)
        peer.train_from_iterator(iter(texts), ranks, pattern=SPLIT_PATTERN)
        clock.ends("learn")
        assert list(clock.stages) == ["count", "index", "learn"], "rustbpe logs otherwise"
        ranked = {"tokens": lambda: tokens_of(peer)}
        return ranked | {"stages": clock.stages, "distinct": clock.distinct}

    return work


def rustbpe_tokenizer() -> Any:
    """Return a tokenizer of rustbpe, which asks for the level of its log when it is imported."""
    logging.getLogger().setLevel(logging.INFO)
    import rustbpe

    return rustbpe.Tokenizer()


def tokens_of(peer: Any) -> list[bytes]:
    """Return the tokens of rustbpe in rank order."""
    return [bytes(token) for token, _ in peer.get_mergeable_ranks()]


LEARNERS: dict[str, Callable[[Any, int, int], Callable[[], Figures]]] = {
    OURS: _with_public,
    IN_STAGES[0]: _with_strings,
    IN_STAGES[1]: _with_arrow,
    PEER: _with_rustbpe,
}
"""The preparation of each engine."""


def loop(options: argparse.Namespace) -> Rows:
    """Run both merge loops in turn on the same counts; stop if their tokens differ."""
    rows: Rows = []
    merges = options.ranks - NUM_BYTES
    for name in (each.name for each in options.corpus):
        folder = options.folder / name
        works = {OURS: partial(fresh, merge_spans, merges, 1, folder)}
        if options.peer:
            python = options.peer_python
            works[LOOP_PEER] = partial(
                fresh, ffbpe_loop, merges, folder, env=ONE_THREAD, python=python
            )
        runs = in_turn(works, options.repeats)
        assert_same(runs, "sha256", f"{name}, merge loop")
        for engine, own in runs.items():
            seconds = median(own)
            row = {"corpus": name, "engine": engine, "seconds": round(seconds, 4)}
            if LOOP_PEER in runs:
                row["ratio_to_ffbpe"] = round(median(runs[LOOP_PEER]) / seconds, 2)
            row |= {"merges": own[0]["merges"], "sha256": own[0]["sha256"]}
            rows.append(show("loop", row))
    return rows


def merge_spans(
    num_merges: int, threads: int, folder: str, ones: bool = False, marks: Sequence[int] = ()
) -> Figures:
    """Learn once from spans and counts: time, and the peak of memory above the spans.

    With `ones`, every count is 1. With marks, seconds are reported at these numbers of merges, with
    the resolution of progress (1%).
    """
    spans = load_spans(folder)
    if ones:
        spans = spans._replace(counts=np.ones_like(spans.counts))
    left = sorted([0, *marks])
    reached: list[dict[str, Any]] = []

    def on_progress(done: int, _total: int, _last: object) -> None:
        if left and done >= left[0]:
            reached.append({"merges": done, "seconds": time.perf_counter() - start})
            while left and done >= left[0]:
                del left[0]

    before, start = reset_peak(), time.perf_counter()
    merges, counts, _, stop_reason = _core.learn(
        [spans],
        num_merges=num_merges,
        threads=threads,
        on_progress=on_progress if marks else None,
    )
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "peak_bytes": peak() - before,
        "input_bytes": sum(array.nbytes for array in spans),
        "spans": len(spans.counts),
        "span_bytes": len(spans.data),
        "merges": len(merges),
        "stop_reason": stop_reason,
        "sha256": sha256_of(spell(merges.tolist())),
        "marks": [
            mark | {"last_count": int(counts[mark["merges"] - 1]) if mark["merges"] else None}
            for mark in reached
        ],
    }


def learner_row(label: str, run: Figures, num_merges: int) -> Figures:
    """Print and return time and peak with the formula; stop if learning ended wrongly."""
    assert run["stop_reason"] == ENDS[run["merges"] == num_merges], f"{label}: {run}"
    allowed = BYTES_PER_SPAN * run["spans"] + BYTES_PER_BYTE * run["span_bytes"]
    row = {"what": label}
    row |= {name: run[name] for name in ("merges", "spans", "span_bytes", "peak_bytes")}
    row |= {
        "seconds": round(run["seconds"], 3),
        "bytes_per_span": round(run["peak_bytes"] / run["spans"], 1),
        "bytes_per_byte": round(run["peak_bytes"] / run["span_bytes"], 2),
        "formula_bytes": allowed,
        "ratio_to_formula": round(run["peak_bytes"] / allowed, 3),
    }
    return show("learner", row)


def memory(options: argparse.Namespace) -> Rows:
    """Learn with the corpus's counts, and with counts of 1, which rustbpe supports too."""
    rows: Rows = []
    merges = options.ranks - NUM_BYTES
    for name in (each.name for each in options.corpus):
        folder, threads = options.folder / name, sorted({1, options.threads})
        figures = on_threads(name, merges, threads, folder)
        ones = fresh(merge_spans, merges, 1, folder, True)
        peer = fresh(rustbpe_growth, merges, folder, env=ONE_THREAD)
        assert_same({OURS: [ones], PEER: [peer]}, "sha256", f"{name}, counts of 1")
        row = {
            "corpus": name,
            "rows": figures,
            "ones_peak_bytes": ones["peak_bytes"],
            "rustbpe_peak_bytes": peer["peak_bytes"],
            "rustbpe_counted_bytes": peer["counted_bytes"],
            "ratio_to_rustbpe": round(ones["peak_bytes"] / peer["peak_bytes"], 3),
        }
        rows.append(show("memory", row))
    return rows


def on_threads(name: str, merges: int, numbers: Sequence[int], folder: Path) -> Rows:
    """Learn with each number of threads, and return a row for each."""
    runs = {each: fresh(merge_spans, merges, each, folder) for each in numbers}
    assert_same({str(each): [run] for each, run in runs.items()}, "sha256", name)
    return [
        learner_row(f"{name}, {each} thread{'s' * (each > 1)}", run, merges)
        for each, run in runs.items()
    ]


def rustbpe_growth(num_merges: int, folder: str) -> Figures:
    """Learn with rustbpe from spans that occur once: the peak of memory above the spans.

    The memory that it uses for counts is included, and reported separately.
    """
    peer, clock = rustbpe_tokenizer(), Clock()
    logging.getLogger("rustbpe").addHandler(clock)
    texts = load_spans(folder).strings()
    before = reset_peak()
    peer.train_from_iterator(iter(texts), NUM_BYTES + num_merges, pattern=WHOLE)
    growth = peak() - before
    return {
        "peak_bytes": growth,
        "counted_bytes": clock.counted_bytes - before,
        "sha256": sha256_of(tokens_of(peer)),
    }


def synthetic(options: argparse.Namespace) -> Rows:
    """Learn from very many distinct spans."""
    spans = heaps(options.spans, seed=options.seed)
    folder = options.folder / "heaps"
    spans.save(folder)
    return on_threads("synthetic", options.merges, (1, 2), folder)


def ties(options: argparse.Namespace) -> Rows:
    """Learn from tied spans: seconds after n, 2 n and 4 n merges."""
    rows: Rows = []
    marks = [options.tied_merges * times for times in TIMES]
    for count in TIED_COUNTS:
        folder = options.folder / f"tail-{count}"
        tail(options.tied_spans, count, seed=options.seed).save(folder)
        run = fresh(merge_spans, marks[-1], 1, folder, False, marks)
        row = learner_row(f"count {count}", run, marks[-1])
        intervals = [interval(*each) for each in pairwise(run["marks"])]
        rows.append(row | {"count": count, "intervals": intervals})
        check_ends(count, options.seed)
    return rows


def interval(first: Figures, last: Figures) -> Figures:
    """Print and return the time of the merges between two marks."""
    merges = last["merges"] - first["merges"]
    nanoseconds = round((last["seconds"] - first["seconds"]) / merges * 1e9)
    return show("  ties", last | {"from": first["merges"], "nanoseconds_per_merge": nanoseconds})


def check_ends(count: int, seed: int) -> None:
    """Merge all pairs of fewer spans; stop if an end, a limit or a merge is wrong."""
    spans = tail(FEW_SPANS, count, seed=seed)
    merges, found, _, reason = _core.learn([spans], num_merges=2**31)
    assert (reason, int(found[-1])) == ("no pair left", count), (reason, found[-1])
    above, more, _, reason = _core.learn([spans], num_merges=2**31, min_pair_count=count + 1)
    assert (reason, bool(np.all(more > count))) == ("below min_pair_count", True), reason
    assert np.array_equal(above, merges[: len(above)])
    assert not np.any(found[len(above) :] > count), "a limit ended learning too early"
    some, _, _, reason = _core.learn([spans], num_merges=len(merges))
    assert (reason, len(some)) == ("vocabulary size reached", len(merges)), reason
    peer, texts = rustbpe_tokenizer(), iter(spans.strings() * count)
    peer.train_from_iterator(texts, NUM_BYTES + len(merges) + 1, pattern=WHOLE)
    assert spell(merges.tolist()) == tokens_of(peer), "the merges of ties differ from rustbpe's"


TABLES: dict[str, Callable[[argparse.Namespace], Rows]] = {
    "documents": documents_to_merges,
    "counting": counting,
    "loop": loop,
    "memory": memory,
    "synthetic": synthetic,
    "ties": ties,
}

if __name__ == "__main__":
    run(main)
