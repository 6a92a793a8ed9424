"""Run one worker process with several threads, which share a list of slices.

    python benchmarks/one_wide_worker.py STAGE RECIPE OUT THREADS NUMBER OF

It processes every `OF`-th slice of a recipe from `NUMBER` on. It processes one slice in each
thread into a temporary folder, prints `ready`, waits for a line on stdin, and prints one line of
JSON.
"""

import json
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import resident
from nanotok_ray.job.counting import training_of
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.recipe import load_recipe
from nanotok_ray.sources import make_plan
from one_tokenize_process import works_of

if TYPE_CHECKING:
    from typing_extensions import Self


def main() -> None:
    """Do what the command line names."""
    stage, path, out = sys.argv[1:4]
    threads, number, of = map(int, sys.argv[4:7])
    work, into = (count_work, "work") if stage == "count" else (tokenize_work, "out")
    works = list(islice(_works(stage, path, out), number, None, of))
    warm = f"{out}-warm-{number}"
    at_start = resident.now()
    with ThreadPoolExecutor(threads) as pool:
        _run(pool, work, [replace(each, **{into: warm}) for each in works[:threads]])
        shutil.rmtree(warm)
        resident.reset_peak()
        print("ready", flush=True)
        sys.stdin.readline()
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        with _Pss() as pss:
            text_bytes = sum(_run(pool, work, works))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - start,
                "cpu": cpu,
                "text_bytes": text_bytes,
                "base_bytes": at_start,
                "peak_bytes": resident.peak(),
                "pss_bytes": pss.highest,
            }
        )
    )


def _works(stage: str, path: str, out: str) -> Sequence[Any]:
    recipe = load_recipe(path)
    if stage == "count":
        training = training_of(recipe, make_plan(recipe))
        return [replace(training.work(each), work=out) for each in training.slices]
    return works_of(recipe, out)


def _run(pool: ThreadPoolExecutor, work: Callable[[Any], Any], works: Sequence[Any]) -> list[int]:
    return [int(size) for size in pool.map(work, works)]


class _Pss:
    """A thread that records the highest proportional set size of this process."""

    def __init__(self) -> None:
        self.highest = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Self":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.highest = max(self.highest, pss())


def pss() -> int:
    """Return the proportional set size of this process: shared pages count by their users."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()
