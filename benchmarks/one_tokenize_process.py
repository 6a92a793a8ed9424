"""Tokenize every n-th slice of a recipe in this process, without Ray.

    python benchmarks/one_tokenize_process.py RECIPE OUT NUMBER OF

The script tokenizes one slice into a temporary folder, prints `ready`, waits for a line on stdin,
then processes its slices like a worker, including checks and records, and prints one line of JSON:
seconds, those of checking and reading back (`checks`), those of records, and memory.
"""

import json
import shutil
import sys
import time
from dataclasses import replace
from itertools import islice

import resident
from nanotok_ray.formats import to_json
from nanotok_ray.job import work as stages
from nanotok_ray.job.tokenize import tokenizing_of
from nanotok_ray.job.work import TokenizeWork
from nanotok_ray.recipe import Recipe, load_recipe
from nanotok_ray.shards import finished_record
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from time_inside import TimeInside

CHECKING = ("nanotok_ray.shards.check",)
"""Modules whose work in a worker is verification."""


def main() -> None:
    """Tokenize what the command line names."""
    path, out, number, of = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    works = list(islice(works_of(load_recipe(path), out), number, None, of))
    checks, records = timers()
    warm = f"{out}-warm-{number}"
    stages.tokenize_work(replace(works[0], out=warm))
    shutil.rmtree(warm)
    resident.reset_peak()
    print("ready", flush=True)
    sys.stdin.readline()
    checks.seconds = records.seconds = 0.0
    start, begin = time.perf_counter(), time.process_time()
    sizes = [stages.tokenize_work(work) for work in works]
    text_bytes = sum(size for size in sizes if isinstance(size, int))
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - start,
                "cpu": time.process_time() - begin,
                "checks": checks.seconds,
                "records": records.seconds,
                "text_bytes": text_bytes,
                "peak_bytes": resident.peak(),
            }
        )
    )


def works_of(recipe: Recipe, out: str) -> list[TokenizeWork]:
    """Return the work of every slice of a recipe into an empty folder, in order."""
    assert recipe.tokenizer.path is not None
    tokenizer = Tokenizer.load(recipe.tokenizer.path)
    tokenizing = tokenizing_of(recipe, make_plan(recipe), tokenizer, Folder(out))
    return [
        TokenizeWork(expected=(each,), out=out, tokenizer=recipe.tokenizer.path)
        for each in tokenizing.todo
    ]


def timers() -> tuple[TimeInside, TimeInside]:
    """Return timers of checking, and of finding, making and writing records."""
    checks, records = TimeInside(), TimeInside()
    checks.modules(*CHECKING)
    records.function(finished_record)
    records.function(to_json)
    records.method(Folder, "write_bytes")
    return checks, records


if __name__ == "__main__":
    main()
