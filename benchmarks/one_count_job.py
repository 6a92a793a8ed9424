"""Run the counting stage of a recipe on a local Ray in this process.

    python benchmarks/one_count_job.py RECIPE WORKERS

After a warm-up in every worker, all slices are counted into an empty folder. Prints one line of
JSON: seconds from the first submitted task to the last record, and the highest memory of this
driver.
"""

import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import resident
from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.job.counting import CountedSlices, Training, count, training_of
from nanotok_ray.job.events import Event, StageEnded
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.task import Task
from nanotok_ray.job.work import count_work
from nanotok_ray.recipe import load_recipe
from nanotok_ray.sources import make_plan

ALONE = 4 << 30
"""Bytes of a task that is never grouped with others."""


def main() -> None:
    """Count what the command line names."""
    path, workers = sys.argv[1], int(sys.argv[2])
    recipe = load_recipe(path)
    training = training_of(recipe, make_plan(recipe))
    shutil.rmtree(recipe.output.path, ignore_errors=True)
    start = time.perf_counter()
    with ray_session(cpus=workers):
        started = time.perf_counter()
        warm(training, workers)
        resident.reset_peak()
        ended: list[StageEnded] = []

        def on_event(event: Event) -> None:
            if isinstance(event, StageEnded):
                ended.append(event)

        counted = count(training, Runtime(RayExecutor(), on_event=on_event))
        record = figures(counted, sum(event.seconds for event in ended))
        peak = resident.peak()
    print(json.dumps(record | {"start_seconds": started - start, "driver_bytes": peak}))


def warm(training: Training, workers: int) -> None:
    """Count one slice in every worker into a temporary folder."""
    tasks = []
    for number in range(workers):
        folder = f"{training.recipe.output.path}-warm-{number}"
        work = replace(training.work(training.slices[0]), work=folder)
        tasks.append(Task(name=f"warm {number}", work=count_work, argument=work, num_bytes=ALONE))
    for ended in RayExecutor().run(tasks):
        assert ended.error is None, ended.error
    for number in range(workers):
        shutil.rmtree(Path(f"{training.recipe.output.path}-warm-{number}"))


def figures(counted: CountedSlices, seconds: float) -> dict[str, object]:
    """Return the counts and the time."""
    files = [record.value.files[0] for record in counted.records]
    return {
        "seconds": seconds,
        "slices": len(files),
        "text_bytes": counted.sum("text_bytes"),
        "file_bytes": sum(file.size for file in files),
        "sha256": "\n".join(sorted(file.sha256 for file in files)),
    }


if __name__ == "__main__":
    main()
