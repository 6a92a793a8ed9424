"""Run the reduce in this process, from count files to sums: time and memory.

    python benchmarks/one_reduce.py FOLDER BUFFER_BYTES MIN_COUNT [--processes N]

With processes, these sum parts like the tasks of a job. They are started before the timing, since
a job's workers have counted slices before they sum. `ready_seconds` and `ready_peak_bytes` include
reading the sums into the learner's text, without merges. Memory is the maximum growth of this
process. Prints one line of JSON.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier
from typing import Any

import resident
from nanotok_ray import _core
from nanotok_ray.counts import (
    CountPart,
    HashPart,
    PartSettings,
    PartSums,
    SpanSums,
    reduce_counts,
    reduce_part,
)
from nanotok_ray.counts.count_file import BATCH_ROWS, ROW_BYTES
from nanotok_ray.counts.hash_ranges import BATCHES_PER_FILE, MAX_OPEN, MIN_SHARE
from nanotok_ray.formats import SumRecord
from nanotok_ray.job.reducing import PART_BYTES
from nanotok_ray.storage import Folder


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("buffer_bytes", type=int)
    parser.add_argument("min_count", type=int)
    parser.add_argument("--processes", type=int, default=0)
    print(json.dumps(measure(parser.parse_args())))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Reduce once, and read the sums into the learner's text."""
    parts = [CountPart(url=str(path)) for path in sorted(options.folder.glob("*.arrow"))]
    with started(options.processes) as pool, tempfile.TemporaryDirectory() as folder:
        before = resident.reset_peak()
        start = time.perf_counter()
        reduced: SpanSums | PartSums
        if pool is not None:
            reduced = in_processes(parts, Folder(folder), options.min_count, pool)
        else:
            reduced = reduce_counts(
                parts, min_count=options.min_count, buffer_bytes=options.buffer_bytes
            )
        seconds = time.perf_counter() - start
        peak, after = resident.peak() - before, resident.now() - before
        _core.learn(reduced, num_merges=0)
        ready = time.perf_counter() - start
        ready_peak = resident.peak() - before
        kept_spans = kept_bytes = counts_sum = 0
        for _, offsets, counts in reduced:
            kept_spans += len(counts)
            kept_bytes += int(offsets[-1] - offsets[0])
            counts_sum += int(counts.sum())
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "kept_bytes": after,
        "ready_seconds": ready,
        "ready_peak_bytes": ready_peak,
        "result_bytes": kept_bytes + 16 * kept_spans + 8,
        "formula_bytes": reduce_memory(
            distinct_spans=kept_spans,
            distinct_bytes=kept_bytes,
            num_files=len(parts),
            buffer_bytes=options.buffer_bytes,
        ),
        "kept_spans": kept_spans,
        "counts_sum": counts_sum,
        **asdict(reduced.totals),
    }


SMALL_REST = 48 << 20
"""Allowance in bytes for the interpreter, Arrow, and memory that they release late."""

OPEN_BYTES, CLOSED_BYTES = 120_000, 33_000
"""Bytes held for a file that stays open, and for one that does not: the head and row offsets."""


def reduce_memory(
    *, distinct_spans: int, distinct_bytes: int, num_files: int, buffer_bytes: int
) -> int:
    """Return the upper limit of the additional memory of `reduce_counts`, in bytes.

    For each span it holds 16 bytes and the span. Two batches of each file are held, since ranges
    end within batches; the rest of the buffer, and at least an eighth of it, holds the rows of a
    range.
    """
    span_bytes = -(-distinct_bytes // max(1, distinct_spans))
    batches = BATCHES_PER_FILE * num_files * BATCH_ROWS * (ROW_BYTES + span_bytes)
    opened = min(num_files, MAX_OPEN)
    heads = opened * OPEN_BYTES + (num_files - opened) * CLOSED_BYTES
    reading = max(buffer_bytes, batches + buffer_bytes // MIN_SHARE) + heads
    return 16 * distinct_spans + 8 + distinct_bytes + reading + SMALL_REST


@contextmanager
def started(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Start processes that have imported their modules; None for no processes."""
    if not processes:
        yield None
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        together = get_context("spawn").Manager().Barrier(processes)
        list(pool.map(wait_for, [together] * processes))
        yield pool


def wait_for(together: Barrier) -> None:
    """Wait until every process is ready: a fast one must not take the place of another."""
    together.wait()


def in_processes(
    files: Sequence[CountPart], folder: Folder, min_count: int, pool: ProcessPoolExecutor
) -> PartSums:
    """Sum parts in separate processes."""
    size = sum(Path(file.url).stat().st_size for file in files)
    num_parts = 1 << ((size - 1) // PART_BYTES).bit_length()
    work = partial(one_part, files, folder, min_count, num_parts)
    records = list(pool.map(work, range(num_parts)))
    return PartSums(folder=folder, records=records)


def one_part(
    files: Sequence[CountPart], folder: Folder, min_count: int, num_parts: int, number: int
) -> SumRecord:
    """Sum one part, as a task of a job."""
    part = HashPart(number=number, num_parts=num_parts)
    settings = PartSettings(min_count=min_count, part=part)
    return reduce_part(files, settings, folder=folder, name=f"{number:03}", key="benchmark")


if __name__ == "__main__":
    main()
