"""The course of one call on a simulated node: its end and its result, drawn from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nanotok_ray.job import AttemptResult, Cause, Failure
from simulated_faults import Faults
from simulated_slices import Slice

CALL_SECONDS = 0.005
"""Seconds of a call besides its slices."""

STUBBORN = 0.5
"""Share of hanging calls that an interrupt does not end."""

STORAGE = Failure(Cause.STORAGE, "slow down")
WORKER = Failure(Cause.WORKER, "killed")
MEMORY = Failure(Cause.MEMORY, "no memory")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a slice that succeeded."""

    cpu_seconds: float
    call: int


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a call that nothing stops."""

    seconds: float
    """inf: the call hangs."""
    outcomes: tuple[AttemptResult, ...]
    is_stubborn: bool = False
    """Whether an interrupt does not end the hanging call."""


def course_of(
    slices: Sequence[Slice],
    faults: Faults,
    rng: random.Random,
    *,
    call: int,
    level: int,
    cpus: int,
    slowness: float,
) -> Course:
    """Draw the course of slices that run one after the other."""
    seconds = CALL_SECONDS
    outcomes: list[AttemptResult] = []
    for own in slices:
        took = own.seconds * slowness * rng.uniform(0.9, 1.1)
        if rng.random() < faults.hangs:
            return Course(float("inf"), (), is_stubborn=rng.random() < STUBBORN)
        death = _death(own, level, faults, rng)
        if death is not None:
            failed = (AttemptResult(failure=death),) * len(slices)
            return Course(seconds + took * rng.random(), failed)
        if rng.random() < faults.storage_failures:
            took *= rng.random()
            outcomes.append(AttemptResult(seconds=took, failure=STORAGE))
        else:
            outcomes.append(AttemptResult(result=Result(took * cpus, call), seconds=took))
        seconds += took
    return Course(seconds, tuple(outcomes))


def _death(own: Slice, level: int, faults: Faults, rng: random.Random) -> Failure | None:
    if level < own.least_level:
        return MEMORY
    is_dead = own.is_poison or rng.random() < faults.worker_deaths
    return WORKER if is_dead else None
