"""A driver of a whole job that can stop until its gate is opened.

When a given number of slices of both stages have records, every other slice waits for a file, the
gate, before it is processed.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nanotok_ray.api import prepare
from nanotok_ray.job import counting, tokenize
from nanotok_ray.job import work as stages
from nanotok_ray.job.events import Event
from nanotok_ray.recipe import Recipe, load_recipe


def run_driver(  # noqa: PLR0917 - travels to a process as it is
    path: str,
    address: str,
    own_address: str,
    log: str,
    gate: str | None,
    after: int,
    before: Callable[[], None] | None,
) -> None:
    """Run the job; the log contains all of its output."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(sink, descriptor)
    recipe = load_recipe(path)
    if gate is not None:
        stand_still(recipe, gate=Path(gate), after=after)
    if before is not None:
        before()
    import ray  # noqa: PLC0415 - the local executor runs without

    ray.init(address=address, _node_ip_address=own_address, log_to_driver=False)
    prepare(recipe, on_event=log_event)


def stand_still(recipe: Recipe, *, gate: Path, after: int) -> None:
    """Let slices wait for the gate."""
    out, work = Path(recipe.output.path), Path(recipe.output.work)

    count, write = stages.count_work, stages.tokenize_work
    counting.count_work = partial(wait_and_work, count, gate, after, (out, work))
    tokenize.tokenize_work = partial(wait_and_work, write, gate, after, (out, work))


def wait_and_work(
    work: Callable[[Any], int], gate: Path, after: int, folders: tuple[Path, Path], argument: object
) -> int:
    """Do the work of a slice once the gate is open, or while few slices have records."""
    while not gate.exists() and num_done(*folders) >= after:
        time.sleep(0.01)
    return work(argument)


def num_done(out: Path, work: Path) -> int:
    """Return the number of slices with records."""
    counted = sum(1 for _ in work.glob("counts/*/*.json"))
    return counted + sum(1 for _ in out.glob("records/tokenize/*/*/*.json"))


def log_event(event: Event) -> None:
    """Print an event to the log."""
    os.write(1, f"{event}\n".encode())
