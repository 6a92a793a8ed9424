"""Starting a job once: under which id, and whether one is there already that is to be followed.

Takes a submission and a job server; gives the id to follow. A job that may have been started by a
request whose answer got lost is never started a second time. Does not know Ray.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nanotok_ray.cluster.submitting.model import Clock, Jobs, JobState, Submission
from nanotok_ray.errors import RefusedError, UnreachableError

PAUSE = 5.0
"""Seconds from one try to reach the job server to the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The job to follow."""

    submission_id: str
    was_there: JobState | None
    """What it was before, if it was there before."""


def next_id(base_id: str, states: Mapping[str, JobState]) -> tuple[str, bool]:
    """Give the id of the attempt to follow, and whether it is there: else it is to be started.

    >>> ended, runs = JobState(status="FAILED"), JobState(status="RUNNING")
    >>> next_id("web", {}), next_id("web", {"web": runs}), next_id("web", {"web": ended})
    (('web', False), ('web', True), ('web-2', False))
    >>> next_id("web", {"web": ended, "web-2": runs, "web-x": runs, "web-02": runs})
    ('web-2', True)
    """
    attempts = {_attempt(base_id, each): state for each, state in states.items()}
    attempts.pop(0, None)
    under_way = [number for number, state in attempts.items() if not state.has_ended]
    number = max(under_way) if under_way else max(attempts, default=0) + 1
    return (base_id if number == 1 else f"{base_id}-{number}"), bool(under_way)


def _attempt(base_id: str, submission_id: str) -> int:
    """Give the number of an attempt, 0 for the id of something else."""
    if submission_id == base_id:
        return 1
    start, _, number = submission_id.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and number[0] != "0"
    return int(number) if start == base_id and is_number and number != "1" else 0


@dataclass(kw_only=True, slots=True)
class Starter:
    """Starts one submission."""

    jobs: Jobs
    submission: Submission
    chosen_id: str | None
    """The id that was asked for: a job that has it is never run again. None: the next attempt."""
    clock: Clock
    patience: float
    tell: Callable[[str], None]

    _asked_for: str | None = None

    def start(self) -> Started:
        """Start the job, or find the one that is there.

        Raises:
            RefusedError: The job server wants another token, or refuses the request.
            UnreachableError: It could not be reached for as long as patience lasts.
        """
        began = self.clock.now()
        is_told = False
        while True:
            try:
                return self._start()
            except RefusedError:
                raise
            except UnreachableError as error:
                if self.clock.now() - began >= self.patience:
                    raise
                if not is_told:
                    self.tell(f"{error}; trying again for {self.patience:g} s (--patience)")
                is_told = True
            self.clock.wait(PAUSE)

    def _start(self) -> Started:
        submission_id, state = self._next()
        if state is not None and self._asked_for is not None:  # its answer got lost
            return Started(submission_id=submission_id, was_there=None)
        if state is not None:
            return Started(submission_id=submission_id, was_there=state)
        self._asked_for = submission_id
        if self.jobs.submit(submission_id, self.submission):
            return Started(submission_id=submission_id, was_there=None)
        return Started(submission_id=submission_id, was_there=JobState(status="PENDING"))

    def _next(self) -> tuple[str, JobState | None]:
        own = self._asked_for or self.chosen_id
        if own is not None:
            return own, self.jobs.state(own)
        states = self.jobs.states()
        submission_id, _ = next_id(self.submission.base_id, states)
        return submission_id, states.get(submission_id)
