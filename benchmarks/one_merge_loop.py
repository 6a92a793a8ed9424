"""Run the merge loop in this process, from spans and counts to merges: time and memory.

    python benchmarks/one_merge_loop.py NUM_MERGES THREADS FOLDER [--ones] [--marks N ...]

The script reads a folder of `span_file.py`, which is not timed; with --ones every count is 1.
Memory is the peak of `_core.learn` above the resident memory before it, including its input. With
marks, seconds are reported at these numbers of merges, with the resolution of progress (1%).
Prints one line of JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import resident
import span_file
from nanotok_ray import _core
from ranks import sha256_of, spell

Progress = Callable[[int, int, tuple[tuple[int, int], bytes, int] | None], None]
Mark = dict[str, Any]


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("num_merges", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ones", action="store_true")
    parser.add_argument("--marks", type=int, nargs="*", default=[])
    print(json.dumps(measure(parser.parse_args())))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Learn once."""
    spans = span_file.load(options.folder)
    if options.ones:
        spans = spans._replace(counts=np.ones_like(spans.counts))
    marks: list[Mark] = []
    before = resident.reset_peak()
    start = time.perf_counter()
    merges, counts, _, stop_reason = _core.learn(
        [spans],
        num_merges=options.num_merges,
        threads=options.threads,
        on_progress=marker(options.marks, marks, start) if options.marks else None,
    )
    seconds = time.perf_counter() - start
    growth = resident.peak() - before
    return {
        "seconds": seconds,
        "peak_bytes": growth,
        "input_bytes": sum(array.nbytes for array in spans),
        "spans": len(spans.counts),
        "span_bytes": len(spans.data),
        "merges": len(merges),
        "stop_reason": stop_reason,
        "sha256": sha256_of(spell(merges.tolist())),
        "last_count": int(counts[-1]) if len(counts) else None,
        "marks": with_counts(marks, counts),
    }


def marker(wanted: list[int], marks: list[Mark], start: float) -> Progress:
    """Return a callback that records the seconds at the given numbers of merges."""
    left = sorted([0, *wanted])

    def on_progress(done: int, _total: int, _last: object) -> None:
        if left and done >= left[0]:
            marks.append({"merges": done, "seconds": time.perf_counter() - start})
            while left and done >= left[0]:
                del left[0]

    return on_progress


def with_counts(marks: list[Mark], counts: npt.NDArray[np.uint64]) -> list[Mark]:
    """Add the count of the last pair before each mark."""
    last = (int(counts[mark["merges"] - 1]) if mark["merges"] else None for mark in marks)
    return [mark | {"last_count": count} for mark, count in zip(marks, last, strict=True)]


if __name__ == "__main__":
    main()
