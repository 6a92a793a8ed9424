"""The reduce alone in this process: count files to sums, its time and its memory.

    python benchmarks/one_reduce.py FOLDER BUFFER_BYTES MIN_COUNT

Memory is how much the peak of `reduce_counts` lies above what is resident before it, when all is
imported. Prints one line of JSON.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import resident
from nanotok_ray.counts.reduce import CountPart, reduce_counts, reduce_memory


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("buffer_bytes", type=int)
    parser.add_argument("min_count", type=int)
    print(json.dumps(measure(parser.parse_args())))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Reduce once."""
    parts = [CountPart(url=str(path)) for path in sorted(options.folder.glob("*.arrow"))]
    before = resident.reset_peak()
    start = time.perf_counter()
    reduced = reduce_counts(parts, min_count=options.min_count, buffer_bytes=options.buffer_bytes)
    seconds = time.perf_counter() - start
    peak, after = resident.peak() - before, resident.now() - before
    return {
        "seconds": seconds,
        "peak_bytes": peak,
        "kept_bytes": after,
        "result_bytes": reduced.data.nbytes + reduced.offsets.nbytes + reduced.counts.nbytes,
        "formula_bytes": reduce_memory(
            distinct_spans=len(reduced.counts),
            distinct_bytes=len(reduced.data),
            num_files=len(parts),
            buffer_bytes=options.buffer_bytes,
        ),
        "kept_spans": len(reduced.counts),
        "counts_sum": int(reduced.counts.sum()),
        **asdict(reduced.totals),
    }


if __name__ == "__main__":
    main()
