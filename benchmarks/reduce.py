"""Measure the reduce, from many count files to their sums: time, and memory with its formula.

    python benchmarks/reduce.py [--spans 50000000] [--files 200] [--folder FOLDER]
        [--min-count 1 2] [--processes 0 2] [--save]

The script writes synthetic count files (kept and reused if a folder is given), about 40 bytes per
row, then reduces them in a new process for each setting. It stops if a total is wrong. With
processes, these sum parts like the tasks of a job; they are started before the timing, since a
job's workers have counted slices before they sum. `ready_seconds` and `ready_peak_bytes` include
reading the sums into the learner's text, without merges. Memory is the growth of the first process.
"""

import json
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Barrier

from frame import Figures, Rows, finish, fresh, parser, peak, reset_peak, resident, run, show
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
from synthetic import write_count_files

FACTS = "facts.json"
SMALL_REST = 48 << 20
"""Allowance in bytes for the interpreter, Arrow, and memory that they release late."""
OPEN_BYTES, CLOSED_BYTES = 120_000, 33_000
"""Bytes held for a file that stays open, and for one that does not: the head and row offsets."""


def main() -> None:
    """Measure according to the command line."""
    command = parser(__doc__, spans=50_000_000, files=200, buffer=256 << 20)
    command.add_argument(
        "--folder", type=Path, help="of the count files; used again if it is there"
    )
    command.add_argument("--min-count", type=int, nargs="+", default=[1])
    command.add_argument("--processes", type=int, nargs="+", default=[0, 2], help="0: this thread")
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        facts = show("count files", count_files(folder, options.spans, options.files))
        rows: Rows = []
        for least in options.min_count:
            for processes in options.processes:
                own = fresh(reduce, folder, options.buffer, least, processes)
                check(own, facts)
                row = {"buffer_bytes": options.buffer, "min_count": least, "processes": processes}
                row |= own | {
                    "megabytes_per_second": round(facts["file_bytes"] / own["seconds"] / 1e6, 1),
                    "rows_per_second": round(facts["rows"] / own["seconds"]),
                    "ratio_to_formula": round(own["peak_bytes"] / own["formula_bytes"], 3),
                }
                rows.append(show("reduce", row))
    size = {"distinct_spans": options.spans, "files": options.files}
    finish("reduce", [], size | facts | {"rows": rows}, save=options.save)


def count_files(folder: Path, spans: int, files: int) -> Figures:
    """Write the files, unless they exist; return their totals."""
    known, asked = folder / FACTS, [spans, files]
    if known.exists():
        found: Figures = json.loads(known.read_text())
        assert found["asked"] == asked, f"{folder} holds other files: {found}"
        return found
    facts = fresh(write_count_files, folder, spans, files) | {"asked": asked}
    known.write_text(json.dumps(facts))
    return facts


def check(own: Figures, facts: Figures) -> None:
    """Stop if a total is wrong."""
    assert own["distinct_spans"] == facts["asked"][0], own
    assert (own["spans"], own["span_bytes"]) == (facts["spans"], facts["span_bytes"]), own
    assert own["kept_spans"] == own["distinct_spans"] - own["dropped_distinct"], own
    assert own["counts_sum"] == own["spans"] - own["dropped_spans"], own


def reduce(folder: str, buffer_bytes: int, min_count: int, processes: int) -> Figures:
    """Reduce once in this process, and read the sums into the learner's text."""
    if not processes:
        return reduced(folder, buffer_bytes, min_count, None)
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        together = context.Manager().Barrier(processes)
        list(pool.map(wait_for, [together] * processes))
        return reduced(folder, buffer_bytes, min_count, pool)


def wait_for(together: Barrier) -> None:
    """Wait until every process is ready: a fast one must not take the place of another."""
    together.wait()


def reduced(
    folder: str, buffer_bytes: int, min_count: int, pool: ProcessPoolExecutor | None
) -> Figures:
    """Reduce in this thread, or in processes that have started."""
    parts = [CountPart(url=str(path)) for path in sorted(Path(folder).glob("*.arrow"))]
    with tempfile.TemporaryDirectory() as out:
        before, start = reset_peak(), time.perf_counter()
        sums: SpanSums | PartSums
        if pool is None:
            sums = reduce_counts(parts, min_count=min_count, buffer_bytes=buffer_bytes)
        else:
            sums = in_processes(parts, Folder(out), min_count, pool)
        seconds = time.perf_counter() - start
        highest, after = peak() - before, resident() - before
        _core.learn(sums, num_merges=0)
        ready, ready_peak = time.perf_counter() - start, peak() - before
        kept_spans = kept_bytes = counts_sum = 0
        for _, offsets, counts in sums:
            kept_spans += len(counts)
            kept_bytes += int(offsets[-1] - offsets[0])
            counts_sum += int(counts.sum())
    return {
        "seconds": seconds,
        "peak_bytes": highest,
        "kept_bytes": after,
        "ready_seconds": ready,
        "ready_peak_bytes": ready_peak,
        "result_bytes": kept_bytes + 16 * kept_spans + 8,
        "formula_bytes": formula(kept_spans, kept_bytes, len(parts), buffer_bytes),
        "kept_spans": kept_spans,
        "counts_sum": counts_sum,
        **asdict(sums.totals),
    }


def formula(spans: int, span_bytes: int, files: int, buffer_bytes: int) -> int:
    """Return the upper limit of the additional memory of `reduce_counts`, in bytes.

    For each span it holds 16 bytes and the span. Two batches of each file are held, since ranges
    end within batches; the rest of the buffer, and at least an eighth of it, holds the rows of a
    range.
    """
    row_bytes = ROW_BYTES - (-span_bytes // max(1, spans))
    batches = BATCHES_PER_FILE * files * BATCH_ROWS * row_bytes
    opened = min(files, MAX_OPEN)
    heads = opened * OPEN_BYTES + (files - opened) * CLOSED_BYTES
    reading = max(buffer_bytes, batches + buffer_bytes // MIN_SHARE) + heads
    return 16 * spans + 8 + span_bytes + reading + SMALL_REST


def in_processes(
    files: Sequence[CountPart], folder: Folder, min_count: int, pool: ProcessPoolExecutor
) -> PartSums:
    """Sum parts in separate processes."""
    size = sum(Path(file.url).stat().st_size for file in files)
    num_parts = 1 << ((size - 1) // PART_BYTES).bit_length()
    work = partial(one_part, files, folder, min_count, num_parts)
    return PartSums(folder=folder, records=list(pool.map(work, range(num_parts))))


def one_part(
    files: Sequence[CountPart], folder: Folder, min_count: int, num_parts: int, number: int
) -> SumRecord:
    """Sum one part, as a task of a job."""
    part = HashPart(number=number, num_parts=num_parts)
    settings = PartSettings(min_count=min_count, part=part)
    return reduce_part(files, settings, folder=folder, name=f"{number:03}", key="benchmark")


if __name__ == "__main__":
    run(main)
