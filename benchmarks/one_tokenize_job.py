"""Run the tokenizing job of a recipe on a local Ray in this process.

    python benchmarks/one_tokenize_job.py RECIPE WORKERS

After a warm-up in every worker, the whole job runs into an empty folder: plan, slices,
verification, manifest. Prints one line of JSON: seconds of the job and of its stages, and the
highest memory of this driver and of a worker; CPU seconds exclude those of Ray's own processes.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import resident
from nanotok_ray.api import tokenize
from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.formats import MANIFEST_NAME
from nanotok_ray.job.task import Task
from nanotok_ray.job.work import tokenize_work
from nanotok_ray.recipe import Recipe, load_recipe
from one_tokenize_process import works_of

ALONE = 4 << 30
"""Bytes of a task that is never grouped with others."""


def main() -> None:
    """Tokenize what the command line names."""
    recipe, workers = load_recipe(sys.argv[1]), int(sys.argv[2])
    out = Path(recipe.output.path)
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    with ray_session(cpus=workers):
        started = time.perf_counter()
        warm(recipe, workers)
        for process in ["self", *worker_processes()]:
            resident.reset_peak(process)
        used, begin = cpu_seconds(), time.perf_counter()
        summary = tokenize(recipe, cpus=workers)
        seconds = time.perf_counter() - begin
        cpu = cpu_seconds() - used
        peaks = [resident.peak(process) for process in worker_processes()]
    stages = {name: stage["seconds"] for name, stage in summary.values["stages"].items()}
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": cpu,
                "stages": stages,
                "start_seconds": started - start,
                "text_bytes": summary.values["text_bytes"],
                "documents": summary.values["documents"],
                "tokens": summary.values["tokens"],
                "driver_bytes": resident.peak(),
                "worker_bytes": max(peaks),
                "manifest": sha256((out / MANIFEST_NAME).read_bytes()).hexdigest(),
            }
        )
    )


def warm(recipe: Recipe, workers: int) -> None:
    """Tokenize one slice in every worker into a temporary folder."""
    tasks = []
    for number in range(workers):
        folder = f"{recipe.output.path}-warm-{number}"
        work = replace(works_of(recipe, folder)[0], out=folder)
        name = f"warm {number}"
        tasks.append(Task(name=name, work=tokenize_work, argument=work, num_bytes=ALONE))
    for ended in RayExecutor().run(tasks):
        assert ended.error is None, ended.error
    for number in range(workers):
        shutil.rmtree(f"{recipe.output.path}-warm-{number}")


def cpu_seconds() -> float:
    """Return the CPU seconds so far of this process and of the current workers."""
    ticks = 0
    for process in worker_processes():
        stat = Path(f"/proc/{process}/stat").read_text()
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def worker_processes() -> Iterator[str]:
    """Yield the ids of the processes below this one that are Ray's workers."""
    parents = {path.name: parent_of(path) for path in Path("/proc").glob("[0-9]*")}
    for process in parents:
        above: str | None = process
        while above is not None and above != str(os.getpid()):
            above = parents.get(above)
        if above is not None and command_of(process).startswith("ray::"):
            yield process


def parent_of(process: Path) -> str | None:
    """Return the id of a process's parent; None if it has just ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return None


def command_of(process: str) -> str:
    """Return the command of a process; empty if it has just ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    main()
