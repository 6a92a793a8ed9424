"""The course of one call on a simulated node: its end and its result, drawn from a seed."""

import random
from dataclasses import dataclass

from nanotok_ray.job.task import AttemptResult, Cause, Failure
from simulated_faults import Faults
from simulated_slices import Slice

CALL_SECONDS = 0.005
"""Seconds of a call besides its slice."""

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
    outcome: AttemptResult | None
    """None: the call hangs."""
    is_stubborn: bool = False
    """Whether an interrupt does not end the hanging call."""


def course_of(
    own: Slice, faults: Faults, rng: random.Random, *, call: int, cpus: int, slowness: float
) -> Course:
    """Draw the course of a slice on a node."""
    took = own.seconds * slowness * rng.uniform(0.9, 1.1)
    if rng.random() < faults.hangs:
        return Course(0.0, None, is_stubborn=rng.random() < STUBBORN)
    failure = _failure(own, cpus, faults, rng)
    if failure is not None:
        took *= rng.random()
        return Course(CALL_SECONDS + took, AttemptResult(seconds=took, failure=failure))
    outcome = AttemptResult(result=Result(took * cpus, call), seconds=took)
    return Course(CALL_SECONDS + took, outcome)


def _failure(own: Slice, cpus: int, faults: Faults, rng: random.Random) -> Failure | None:
    if cpus < own.least_cpus:
        return MEMORY
    if own.is_poison or rng.random() < faults.worker_deaths:
        return WORKER
    return STORAGE if rng.random() < faults.storage_failures else None
