"""Compare processes of one thread with one process of as many threads: memory and speed.

    python benchmarks/wide_workers.py RECIPE [--workers 1 2 4] [--repeats 3] [--save]

The recipe names a tokenizer (`tokenizer.path`). Its slices are counted and tokenized both ways, in
turn, in new processes without Ray, which share a list of slices.
"""

import tempfile
from functools import partial
from pathlib import Path

from frame import Figures, Rows, finish, in_turn, median, parser, run, show
from job_runs import STAGES, without_ray


def main() -> None:
    """Measure what the command line names."""
    command = parser(__doc__, repeats=3)
    command.add_argument("recipe", type=Path)
    command.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    options = command.parse_args()
    rows: Rows = []
    for stage in STAGES:
        for number in options.workers:
            shapes = dict.fromkeys([(number, 1), (1, number)])
            works = {
                f"{processes} x {threads}": partial(
                    measure, stage, options.recipe, processes=processes, threads=threads
                )
                for processes, threads in shapes
            }
            for own in in_turn(works, options.repeats).values():
                row = own[0] | {name: median(own, name) for name in ("seconds", "cpu")}
                row["seconds_of_runs"] = [each["seconds"] for each in own]
                row["cpu_of_runs"] = [each["cpu"] for each in own]
                rows.append(show(stage, row))
    finish("wide_workers", [], {"rows": rows}, save=options.save)


def measure(stage: str, recipe: Path, *, processes: int, threads: int) -> Figures:
    """Do a stage into a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "out"
        figures = without_ray(stage, recipe, out, processes=processes, threads=threads)
    row = {"stage": stage, "processes": processes, "threads": threads} | figures
    return row | {"seconds": row.pop("longest_seconds")}


if __name__ == "__main__":
    run(main)
