"""The tables of `learn.py` for a corpus: documents to merges, counting, the merge loop.

Each function returns rows for the JSON document and prints a line for each. The `one_*.py` scripts
run the engines.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from statistics import median as median_of
from typing import Any

import span_file
from corpus import load_texts, read_texts, write_texts
from fresh import Figures, assert_same, fresh, in_turn, median
from learn_settings import NUM_BYTES, Settings, threads_of
from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN

IN_STAGES = ("nanotok_ray, strings in stages", "nanotok_ray, Arrow in stages")
OURS = ("nanotok_ray", *IN_STAGES)
PEER = "rustbpe"
LOOP_PEER = "ffbpe"
SPANS = "spans"

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Parquet files with a text column."""

    name: str
    files: Sequence[Path]

    def write(self, folder: Path) -> None:
        """Write the texts, and their spans and counts, for the timed processes."""
        folder.mkdir()
        write_texts(read_texts(self.files), folder)
        documents = load_texts(folder)
        counts = _core.SpanCounts(SPLIT_PATTERN)
        counts.update(documents.data, documents.offsets)
        spans = span_file.Spans(*counts.sorted_run()[1:])
        span_file.save(spans, folder / SPANS)
        print(
            f"{self.name}: {len(self.files)} files, {len(documents):,} documents, "
            f"{documents.num_bytes / 1e6:.1f} MB, {counts.total():,} spans, {len(spans.counts):,} "
            f"distinct with {len(spans.data) / 1e6:.1f} MB",
            flush=True,
        )


def parse_corpus(argument: str) -> Corpus:
    """Read NAME:GLOB[,GLOB...], as argparse wants it."""
    name, _, globs = argument.partition(":")
    files = sorted(Path(path) for each in globs.split(",") for path in glob(each))  # noqa: PTH207 - absolute globs
    if not name or not files:
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME:GLOB of files that are there")
    return Corpus(name=name, files=files)


def documents(settings: Settings) -> Rows:
    """Learn from texts in memory; goal: ten times as fast as rustbpe."""
    print(
        f"documents to merges, {settings.ranks:,} ranks, {threads_of(settings.threads)}; goal 10 x"
    )
    return learners(settings, (*OURS, PEER), settings.ranks, settings.threads, "seconds")


def counting(settings: Settings) -> Rows:
    """Count without merges, timing that stage; goal: 300 MB/s, ten times rustbpe's."""
    print("counting alone, 1 thread; goal 300 MB/s of English, 10 x")
    return learners(settings, (*IN_STAGES, PEER), NUM_BYTES, 1, "count")


def learners(
    settings: Settings, engines: Sequence[str], ranks: int, threads: int, figure: str
) -> Rows:
    """Run engines in turn on each corpus; stop if their tokens or their spans differ."""
    rows = []
    env = {"RAYON_NUM_THREADS": str(threads)}
    for name in settings.corpora:
        works = {
            engine: partial(
                fresh, "one_learner.py", engine, ranks, threads, settings.folder / name, env=env
            )
            for engine in engines
        }
        runs = in_turn(works, settings.repeats)
        assert_same(runs, "sha256", name)
        assert_same({each: runs[each] for each in (*IN_STAGES, PEER)}, "distinct", name)
        rows += [row_of_learner(name, engine, runs, figure) for engine in engines]
    return rows


def row_of_learner(
    corpus: str, engine: str, runs: Mapping[str, list[Figures]], figure: str
) -> dict[str, Any]:
    """Print and return a row; its ratio is rustbpe's time, whole or of a stage, to this time."""
    seconds = median(each_figure(runs[engine], figure), figure)
    ratio = median(each_figure(runs[PEER], figure), figure) / seconds
    own = runs[engine]
    rate = own[0]["bytes"] / 1e6 / seconds
    stages = {each: median_of(run["stages"][each] for run in own) for each in own[0]["stages"]}
    text = ", ".join(f"{stage} {value:.2f}" for stage, value in stages.items())
    print(
        f"  {corpus:<14}{engine:<32}{seconds:8.3f} s{rate:9.1f} MB/s{ratio:8.2f} x {PEER}  {text}",
        flush=True,
    )
    return {
        "corpus": corpus,
        "engine": engine,
        "seconds": round(seconds, 4),
        "megabytes_per_second": round(rate, 1),
        "ratio_to_rustbpe": round(ratio, 2),
        "stages": {stage: round(value, 4) for stage, value in stages.items()},
        "ranks": own[0]["ranks"],
        "sha256": own[0]["sha256"],
    }


def each_figure(runs: Sequence[Figures], figure: str) -> list[Figures]:
    """Return runs with one figure in place of the whole."""
    return [run | run["stages"] for run in runs] if figure != "seconds" else list(runs)


def loop(settings: Settings) -> Rows:
    """Merge from spans and counts, one thread; goal: four times as fast as ffbpe."""
    print("merge loop alone on the same counts, 1 thread; goal 4 x ffbpe")
    if settings.peer_python is None:
        print("  ffbpe is not installed: no comparison (--peer-python)")
    return [row for name in settings.corpora for row in loops(settings, name)]


def loops(settings: Settings, name: str) -> Rows:
    """Run both loops in turn; stop if their tokens differ."""
    folder, merges = settings.folder / name / SPANS, settings.num_merges
    works: dict[str, Callable[[], Figures]] = {
        "nanotok_ray": partial(fresh, "one_merge_loop.py", merges, 1, folder)
    }
    if python := settings.peer_python:
        env = {"RAYON_NUM_THREADS": "1"}
        works[LOOP_PEER] = partial(
            fresh, "one_peer_loop.py", merges, folder, env=env, python=python
        )
    runs = in_turn(works, settings.repeats)
    assert_same(runs, "sha256", f"{name}, merge loop")
    rows: Rows = []
    for engine, own in runs.items():
        seconds = median(own, "seconds")
        row = {"corpus": name, "engine": engine, "seconds": round(seconds, 4)}
        if LOOP_PEER in runs:
            row["ratio_to_ffbpe"] = round(median(runs[LOOP_PEER], "seconds") / seconds, 2)
        beside = f"{row['ratio_to_ffbpe']:8.2f} x {LOOP_PEER}" if LOOP_PEER in runs else ""
        print(f"  {name:<14}{engine:<14}{seconds:8.3f} s{beside}", flush=True)
        rows.append(row | {"merges": own[0]["merges"], "sha256": own[0]["sha256"]})
    return rows


TABLES: dict[str, Callable[[Settings], Any]] = {
    "documents": documents,
    "counting": counting,
    "loop": loop,
}
