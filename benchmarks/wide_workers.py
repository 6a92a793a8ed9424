"""Compare processes of one thread with one process of as many threads: memory and speed.

    python benchmarks/wide_workers.py RECIPE [--workers 1 2 4] [--rounds 3] [--save]

The recipe names a tokenizer (`tokenizer.path`). Its slices are counted and tokenized both ways, in
turn, in fresh processes (`one_wide_worker.py`). The last line of stdout is one JSON document,
which --save appends to results/wide_workers.jsonl.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from about import about, finish
from fresh import side_by_side

SCRIPT = "one_wide_worker.py"


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="add to results/wide_workers.jsonl")
    options = parser.parse_args()
    rows = []
    for stage in ("count", "tokenize"):
        for workers in options.workers:
            shapes = dict.fromkeys([(workers, 1), (1, workers)])
            runs: dict[tuple[int, int], list[dict[str, float]]] = {each: [] for each in shapes}
            for _ in range(options.rounds):
                for shape in shapes:
                    runs[shape].append(measured(stage, options.recipe, *shape))
            rows += [row_of(stage, shape, found) for shape, found in runs.items()]
    finish(about("wide_workers", []) | {"rows": rows}, save=options.save)


def measured(stage: str, recipe: Path, processes: int, threads: int) -> dict[str, float]:
    """Run processes concurrently; return their total figures."""
    with tempfile.TemporaryDirectory() as name:
        arguments = (SCRIPT, stage, recipe, f"{name}/out", threads)
        _, ended = side_by_side(*arguments, processes=processes)
    found: dict[str, float] = {
        key: sum(each[key] for each in ended)
        for key in ("cpu", "text_bytes", "base_bytes", "peak_bytes", "pss_bytes")
    }
    return found | {"seconds": max(each["seconds"] for each in ended)}


def row_of(stage: str, shape: tuple[int, int], runs: list[dict[str, float]]) -> dict[str, Any]:
    """Print and return the medians of the runs of one shape."""
    median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    processes, threads = shape
    row = {"stage": stage, "processes": processes, "threads": threads} | median
    row["seconds_of_runs"] = [run["seconds"] for run in runs]
    row["cpu_of_runs"] = [run["cpu"] for run in runs]
    print(
        f"{stage}: {processes} processes of {threads} threads: {median['seconds']:.2f} s, CPU "
        f"{median['cpu']:.2f} s for {median['text_bytes'] / 1e6:.0f} MB; at the start "
        f"{median['base_bytes'] / 1e6:.0f} MB, at most PSS {median['pss_bytes'] / 1e6:.0f} MB, "
        f"resident {median['peak_bytes'] / 1e6:.0f} MB",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
