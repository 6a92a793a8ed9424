"""Count every n-th slice of a recipe in this process, without Ray.

    python benchmarks/one_count_process.py RECIPE NUMBER OF

The script counts one slice into a temporary folder, prints `ready`, waits for a line on stdin,
counts, sorts and writes its slices with their records, and prints one line of JSON.
"""

import json
import sys
import time
from dataclasses import replace
from itertools import islice

from nanotok_ray.formats import CountRecord, load
from nanotok_ray.job.counting import training_of
from nanotok_ray.job.work import count_work
from nanotok_ray.recipe import load_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder


def main() -> None:
    """Count what the command line names."""
    path, number, of = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    recipe = load_recipe(path)
    training = training_of(recipe, make_plan(recipe))
    works = [training.work(each) for each in islice(training.slices, number, None, of)]
    count_work(replace(works[0], work=f"{recipe.output.path}-warm-{number}"))
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    sizes = [count_work(work) for work in works]
    text_bytes = sum(size for size in sizes if isinstance(size, int))
    seconds = time.perf_counter() - start
    folder = Folder(recipe.output.work)
    files = [
        load(CountRecord, folder.read_bytes(f"{work.name}.json"), name=work.name).files[0]
        for work in works
    ]
    print(
        json.dumps(
            {
                "seconds": seconds,
                "text_bytes": text_bytes,
                "file_bytes": sum(file.size for file in files),
                "sha256": [file.sha256 for file in files],
            }
        )
    )


if __name__ == "__main__":
    main()
