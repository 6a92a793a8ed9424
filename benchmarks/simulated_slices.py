"""Slices of a simulated job: their sizes, what is wrong with them, the tasks that stand for them.

Drawn from a seed. The tasks' work is never run.
"""

import random
from dataclasses import dataclass

from nanotok_ray.job import Task
from simulated_faults import Faults

MEDIAN_BYTES = 256 << 20
"""As `limits.slice_bytes` is by default."""

SIGMA = 0.7
"""Of the log-normal sizes: one in a thousand is nine times the median."""

MOST_BYTES = 4 << 30
BYTES_PER_SECOND = 25e6
"""What one CPU does: a quarter of what was measured, as if storage were slow."""

HARD, HARDER = 0.2, 3.0
"""Share of the slices whose text takes longer, and how many times."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice, as the simulated worker sees it."""

    number: int
    seconds: float
    """What it takes on a CPU that nothing slows."""
    is_poison: bool
    least_level: int
    """The memory level (`attempts.TaskBatch`) below which it runs out of memory."""


def tasks_of(count: int, faults: Faults, rng: random.Random) -> list[Task]:
    """Draw tasks whose arguments are slices."""
    poison = set(rng.sample(range(count), min(faults.poison, count)))
    return [_task(number, number in poison, faults, rng) for number in range(count)]


def ideal_seconds(tasks: list[Task], *, cpus: int) -> float:
    """Return what no scheduler beats on so many CPUs: all work over them, or the longest slice."""
    work: list[float] = [task.argument.seconds for task in tasks]
    return max(sum(work) / cpus, *work)


def _task(number: int, is_poison: bool, faults: Faults, rng: random.Random) -> Task:
    size = min(MOST_BYTES, int(MEDIAN_BYTES * rng.lognormvariate(0.0, SIGMA)))
    seconds = size / BYTES_PER_SECOND * rng.lognormvariate(0.0, 0.2)
    seconds *= HARDER if rng.random() < HARD else 1.0
    is_hungry = faults.hungry_bytes is not None and size > faults.hungry_bytes
    own = Slice(number, seconds, is_poison, int(is_hungry))
    return Task(name=f"slice {number}", work=len, argument=own, num_bytes=size)
