"""Measure counting as a job, the same slices counted without Ray, and very many tiny slices.

    python benchmarks/count_job.py --corpus GLOB[,GLOB...] [--bytes N] [--repeats N] [--save]

The files are linked under new names until they have --bytes of text. Each method runs in fresh
processes, in turn, after its own warm-up; medians are printed:

- alone: one process counts, sorts and writes all slices, without Ray
- two alone: two such processes, each with every other slice, from the start of both to the last
  end
- job 1, job 2: the counting stage on a local Ray with one and with two CPUs, from the first
  submitted task to the last record; the start of Ray is reported separately

Ray's workers have the priority of the processes alone (the default of Ray is a niceness of 15,
which yields to other processes of the machine). All methods must write the same count files,
compared by sha256. Goals: job 1 takes less than 1.15 times as long as alone; two alone takes at
least 0.92 of job 2. Then a file of lines is divided into --tiny slices: goals 60 s and less than
500 MB in the driver. The last line of stdout is one JSON document, which --save appends to
results/count_job.jsonl.
"""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from about import about, finish
from corpus import read_texts
from fresh import Figures, assert_same, fresh, in_turn, median, median_ratio, side_by_side

RECIPE = """
[[source]]
name = "text"
kind = "text"
paths = ["{folder}/text"]
split = "train"

[output]
path = "{folder}/out"

[limits]
slice_bytes = {slice_bytes}
"""

PRIORITY = {"RAY_worker_niceness": "0"}

LINE = '{"text": "It is a small thing, and there are 10,000 of it; each is counted on its own."}\n'
LINES_A_SLICE = 100


def main() -> None:
    """Measure what the command line names."""
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recipe = write_corpus(folder / "corpus", options.corpus, options.bytes, options.slice_bytes)
        works = {
            "alone": lambda: alone(recipe, processes=1),
            "two alone": lambda: alone(recipe, processes=2),
            "job 1": lambda: fresh("one_count_job.py", recipe, 1, env=PRIORITY),
            "job 2": lambda: fresh("one_count_job.py", recipe, 2, env=PRIORITY),
        }
        runs = in_turn(works, options.repeats)
        assert_same(runs, "sha256", "count files")
        row = about("count_job", [path.parent.name for path in options.corpus])
        row |= {"slice_bytes": options.slice_bytes} | compare(runs)
        if options.tiny:
            row["tiny"] = tell_tiny(fresh("one_count_job.py", write_tiny(folder, options.tiny), 2))
    finish(row, save=options.save)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=globbed, required=True, metavar="GLOB[,GLOB...]")
    parser.add_argument("--bytes", type=int, default=5_000_000_000, help="of text at least")
    parser.add_argument("--slice-bytes", type=int, default=64 << 20)
    parser.add_argument("--tiny", type=int, default=10_000, help="tiny slices; 0: none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


def globbed(argument: str) -> list[Path]:
    """Read GLOB[,GLOB...], as argparse wants it."""
    files = [path for glob in argument.split(",") for path in sorted(Path("/").glob(glob[1:]))]
    if not files:
        raise argparse.ArgumentTypeError(f"{argument!r} matches no file; globs are absolute")
    return files


def write_corpus(folder: Path, files: Sequence[Path], least: int, slice_bytes: int) -> Path:
    """Copy the files once and link them until there is enough text; return the recipe."""
    (folder / "text").mkdir(parents=True)
    (folder / "files").mkdir()
    own = [Path(shutil.copy(path, folder / f"files/{n}.parquet")) for n, path in enumerate(files)]
    size = sum(len(text.encode()) for text in read_texts(own))
    for copy in range(-(-least // size)):
        for path in own:
            (folder / f"text/{copy:03}-{path.name}").hardlink_to(path)
    return write_recipe(folder, slice_bytes)


def write_tiny(folder: Path, slices: int) -> Path:
    """Write lines that are divided into `slices` slices; return the recipe."""
    (folder / "tiny/text").mkdir(parents=True)
    (folder / "tiny/text/lines.jsonl").write_text(LINE * LINES_A_SLICE * slices)
    return write_recipe(folder / "tiny", len(LINE) * LINES_A_SLICE)


def write_recipe(folder: Path, slice_bytes: int) -> Path:
    """Write the recipe of a folder of texts."""
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(folder=folder, slice_bytes=slice_bytes))
    return path


def alone(recipe: Path, *, processes: int) -> Figures:
    """Count without Ray in independent processes."""
    shutil.rmtree(recipe.parent / "out", ignore_errors=True)
    seconds, outcomes = side_by_side("one_count_process.py", recipe, processes=processes)
    return {
        "seconds": seconds,
        "text_bytes": sum(each["text_bytes"] for each in outcomes),
        "file_bytes": sum(each["file_bytes"] for each in outcomes),
        "sha256": "\n".join(sorted(digest for each in outcomes for digest in each["sha256"])),
    }


def compare(runs: dict[str, list[Figures]]) -> dict[str, Any]:
    """Print the medians, and the ratios with goals."""
    seconds = {name: median(each, "seconds") for name, each in runs.items()}
    size = runs["alone"][0]["text_bytes"]
    cores = {"alone": 1, "two alone": 2, "job 1": 1, "job 2": 2}
    rates = {name: size / 1e6 / seconds[name] / cores[name] for name in seconds}
    file_share = runs["alone"][0]["file_bytes"] / size
    overhead = median_ratio(runs, "job 1", "alone") - 1
    against_two = median_ratio(runs, "two alone", "job 2")
    for name, own in seconds.items():
        print(f"{name:<10} {own:6.1f} s  {rates[name]:6.1f} MB/s per core")
    print(f"Ray's start {median(runs['job 2'], 'start_seconds'):.1f} s, not in it")
    print(f"overhead of the job over alone {overhead:+.1%} (goal: under 15%)")
    print(f"two alone / job 2: {against_two:.3f} (goal: 0.92)")
    print(f"driver: {median(runs['job 2'], 'driver_bytes') / 1e6:.0f} MB resident at most")
    print(f"count files: {file_share:.4f} bytes a byte of text", flush=True)
    return {
        "text_bytes": size,
        "seconds": {name: [round(each["seconds"], 2) for each in runs[name]] for name in runs},
        "megabytes_per_second_and_core": {name: round(rate, 1) for name, rate in rates.items()},
        "start_seconds": round(median(runs["job 2"], "start_seconds"), 1),
        "overhead": round(overhead, 4),
        "two_alone_to_job_2": round(against_two, 4),
        "driver_bytes": int(median(runs["job 2"], "driver_bytes")),
        "count_bytes_per_text_byte": round(file_share, 5),
    }


def tell_tiny(run: Figures) -> dict[str, Any]:
    """Print the cost of very many tiny slices."""
    print(
        f"{run['slices']:,} tiny slices: {run['seconds']:.1f} s (goal: 60), driver "
        f"{run['driver_bytes'] / 1e6:.0f} MB (goal: 500)",
        flush=True,
    )
    return {
        "slices": run["slices"],
        "seconds": round(run["seconds"], 2),
        "driver_bytes": run["driver_bytes"],
    }


if __name__ == "__main__":
    main()
