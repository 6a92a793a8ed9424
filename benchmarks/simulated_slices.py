"""Slices of a simulated job: their sizes, their faults, and their tasks, drawn from a seed.

The work of the tasks is never run.
"""

import random
from dataclasses import dataclass

from nanotok_ray.job.task import Task
from simulated_faults import Faults

MEDIAN_BYTES = 256 << 20
"""The default of `limits.slice_bytes`."""

SIGMA = 0.7
"""Parameter of the log-normal sizes: one in a thousand is nine times the median."""

MAX_BYTES = 4 << 30
BYTES_PER_SECOND = 25e6
"""Speed of one CPU: a quarter of the measured speed, as with slow storage."""

HARD, HARDER = 0.2, 3.0
"""Share of the slices whose text takes longer, and the factor."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of the simulation."""

    number: int
    seconds: float
    """Seconds on a CPU without slowdown."""
    is_poison: bool
    least_cpus: int
    """The CPUs, with their shares of memory, below which the slice runs out of memory."""


def tasks_of(count: int, faults: Faults, rng: random.Random) -> list[Task]:
    """Draw tasks whose arguments are slices."""
    poison = set(rng.sample(range(count), min(faults.poison, count)))
    return [_task(number, number in poison, faults, rng) for number in range(count)]


def ideal_seconds(tasks: list[Task], *, cpus: int) -> float:
    """Return a lower bound for schedulers: all work divided by the CPUs, or the longest slice."""
    work: list[float] = [task.argument.seconds for task in tasks]
    return max(sum(work) / cpus, *work)


def _task(number: int, is_poison: bool, faults: Faults, rng: random.Random) -> Task:
    size = min(MAX_BYTES, int(MEDIAN_BYTES * rng.lognormvariate(0.0, SIGMA)))
    seconds = size / BYTES_PER_SECOND * rng.lognormvariate(0.0, 0.2)
    seconds *= HARDER if rng.random() < HARD else 1.0
    is_hungry = faults.hungry_bytes is not None and size > faults.hungry_bytes
    own = Slice(number, seconds, is_poison, 2 if is_hungry else 1)
    return Task(name=f"slice {number}", work=len, argument=own, num_bytes=size)
