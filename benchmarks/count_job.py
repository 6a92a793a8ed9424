"""Measure counting as a job, the same slices counted without Ray, and very many tiny slices.

    python benchmarks/count_job.py --corpus GLOB[,GLOB...] [--bytes N] [--repeats N] [--save]

The files are linked under new names until they have --bytes of text. Each method runs in new
processes, in turn, after its own warm-up; medians are printed:

- alone: one process counts, sorts and writes all slices, without Ray
- two alone: two such processes, each with every other slice, from the start of both to the last
  end
- job 1, job 2: the counting stage on a local Ray with one and with two CPUs, from the first
  submitted task to the last record; the start of Ray is reported separately

All methods must write the same count files, compared by sha256. Goals: job 1 takes less than 1.15
times as long as alone; two alone takes at least 0.92 of job 2. Then a file of lines is divided into
--tiny slices: goals 60 s and less than 500 MB in the driver.
"""

import shutil
import tempfile
from functools import partial
from pathlib import Path

from corpora import num_bytes, read_texts
from frame import (
    Figures,
    Runs,
    assert_same,
    files_of,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    ratio,
    run,
    show,
)
from job_runs import CORES, PRIORITY, count_files, link_files, on_ray, without_ray, write_recipe

LINE = '{"text": "It is a small thing, and there are 10,000 of it; each is counted on its own."}\n'
LINES_A_SLICE = 100


def main() -> None:
    """Measure what the command line names."""
    sizes = {"bytes": 5_000_000_000, "slice_bytes": 64 << 20, "tiny": 10_000, "repeats": 3}
    command = parser(__doc__, **sizes)
    command.add_argument("--corpus", type=files_of, required=True, metavar="GLOB[,GLOB...]")
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        own = [
            Path(shutil.copy(path, folder / f"files/{number}.parquet"))
            for number, path in enumerate(options.corpus)
        ]
        size = num_bytes(read_texts(own))
        link_files(own, folder / "text", size=size, least=options.bytes)
        recipe = write_recipe(folder, options.slice_bytes)
        works = {
            "alone": partial(alone, recipe, processes=1),
            "two alone": partial(alone, recipe, processes=2),
            "job 1": partial(fresh, on_ray, "count", recipe, 1, env=PRIORITY),
            "job 2": partial(fresh, on_ray, "count", recipe, 2, env=PRIORITY),
        }
        runs = in_turn(works, options.repeats)
        assert_same(runs, "sha256", "count files")
        row = {"slice_bytes": options.slice_bytes} | compare(runs)
        if options.tiny:
            row["tiny"] = tiny(folder / "tiny", options.tiny)
    names = [path.parent.name for path in options.corpus]
    finish("count_job", names, row, save=options.save)


def alone(recipe: Path, *, processes: int) -> Figures:
    """Count without Ray in independent processes."""
    out = recipe.parent / "alone"
    return without_ray("count", recipe, out, processes=processes) | count_files(out)


def compare(runs: Runs) -> Figures:
    """Print and return the medians, and the ratios with goals."""
    size = runs["alone"][0]["text_bytes"]
    rates = {name: size / 1e6 / median(own) / CORES[name] for name, own in runs.items()}
    rates = {name: round(rate, 1) for name, rate in rates.items()}
    row = {
        "text_bytes": size,
        "seconds": {name: [round(each["seconds"], 2) for each in runs[name]] for name in runs},
        "megabytes_per_second_and_core": show("MB/s per core", rates),
        "start_seconds": round(median(runs["job 2"], "start_seconds"), 1),
        "overhead": round(ratio(runs, "job 1", "alone") - 1, 4),
        "two_alone_to_job_2": round(ratio(runs, "two alone", "job 2"), 4),
        "driver_bytes": int(median(runs["job 2"], "driver_bytes")),
        "count_bytes_per_text_byte": round(runs["alone"][0]["file_bytes"] / size, 5),
    }
    return show("count", row)


def tiny(folder: Path, slices: int) -> Figures:
    """Count lines that are divided into very many tiny slices."""
    (folder / "text").mkdir(parents=True)
    (folder / "text/lines.jsonl").write_text(LINE * LINES_A_SLICE * slices)
    own = fresh(on_ray, "count", write_recipe(folder, len(LINE) * LINES_A_SLICE), 2)
    row = {name: own[name] for name in ("slices", "driver_bytes")}
    return show("tiny slices", row | {"seconds": round(own["seconds"], 2)})


if __name__ == "__main__":
    run(main)
