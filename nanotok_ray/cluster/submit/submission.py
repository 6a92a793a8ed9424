"""A submission to a job server: starts the job once."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from nanotok_ray.errors import RefusedError, UnreachableError
from nanotok_ray.job.lease import Clock

if TYPE_CHECKING:
    from nanotok_ray.cluster.submit.ray_jobs import RayJobs

SUCCEEDED, FAILED, STOPPED = "SUCCEEDED", "FAILED", "STOPPED"
ENDED = frozenset({SUCCEEDED, FAILED, STOPPED})
"""Final statuses of a job; the others are PENDING and RUNNING."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A recipe that is ready for submission."""

    base_id: str
    """Identifies the values below: the id of the first attempt; later attempts append `-2`, `-3`,
    ...
    """
    entrypoint: str
    """The command of the driver, for a shell."""
    files: Mapping[str, bytes]
    """All files of the working directory: only the recipe."""
    variables: Mapping[str, str]
    """Environment of the job."""
    digest: str
    """Hash of the values above and of the output, in hex."""
    output: str = ""
    """The folder of the output: a path or URL."""
    sources: tuple[str, ...] = ()
    """The names of the sources in the order of the recipe."""
    notes: tuple[str, ...] = ()
    """Values that can have another meaning on the cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobState:
    """The state of a job according to the job server."""

    status: str
    exit_code: int | None = None
    """The driver's exit code; None while it runs, or if it never started."""
    message: str = ""
    digest: str | None = None
    """The `Submission.digest` of a job that this command submitted."""

    @property
    def has_ended(self) -> bool:
        """Whether the status is final.

        >>> JobState(status="STOPPED").has_ended, JobState(status="PENDING").has_ended
        (True, False)
        """
        return self.status in ENDED


START_PAUSE = 5.0
"""Seconds between tries to reach the job server."""

A = TypeVar("A")


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The job to follow."""

    submission_id: str
    was_there: JobState | None
    """Its state before, if it existed before."""


def next_id(base_id: str, states: Mapping[str, JobState]) -> str:
    """Return the id of the last attempt that has not ended, otherwise of the next one.

    >>> ended, runs = JobState(status="FAILED"), JobState(status="RUNNING")
    >>> next_id("web", {}), next_id("web", {"web": runs}), next_id("web", {"web": ended})
    ('web', 'web', 'web-2')
    >>> next_id("web", {"web": ended, "web-2": runs, "web-x": runs, "web-02": runs})
    'web-2'
    """
    attempts = {_attempt(base_id, item): state for item, state in states.items()}
    attempts.pop(0, None)
    under_way = [number for number, state in attempts.items() if not state.has_ended]
    number = max(under_way) if under_way else max(attempts, default=0) + 1
    return base_id if number == 1 else f"{base_id}-{number}"


def _attempt(base_id: str, submission_id: str) -> int:
    """Return the number of an attempt, or 0 for the id of another job."""
    if submission_id == base_id:
        return 1
    start, _, number = submission_id.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and number[0] != "0"
    return int(number) if start == base_id and is_number and number != "1" else 0


@dataclass(kw_only=True, slots=True)
class Connection:
    """Asks a job server, and again while it does not answer."""

    jobs: "RayJobs"
    first_patience: float
    """Seconds for which the server may not answer until it has answered once."""
    patience: float
    """Seconds for which it may not answer later."""
    on_message: Callable[[str], None]
    """Called with messages about the connection."""
    clock: Clock = field(default_factory=lambda: Clock(now=time.monotonic))
    """A time in which the machine is suspended does not count."""
    answered_at: float | None = None
    was_silent: bool = False
    """Whether the last answer came after requests without one."""
    end: float = math.inf
    """The time after which nothing is asked any more."""

    def ask(self, request: Callable[[], A], pause: Callable[[], float]) -> A:
        """Return what a request returns; `pause` returns the seconds between two requests.

        Raises:
            RefusedError: The server has never answered, and refuses the request.
            UnreachableError: The server did not answer within the limit of patience.
            TimeoutError: The end is reached.
        """
        is_first = self.answered_at is None
        began = self.clock.now() if self.answered_at is None else self.answered_at
        patience = self.first_patience if is_first else self.patience
        self.was_silent = False
        while True:
            try:
                answer = request()
            except UnreachableError as error:
                is_refused = is_first and isinstance(error, RefusedError)
                if is_refused or self.clock.now() - began >= patience:
                    raise
                if not self.was_silent:
                    self.on_message(f"{error}; trying again for {patience:g} s (--patience)")
                self.was_silent = True
            else:
                if self.was_silent and not is_first:
                    self.on_message("the job server answers again")
                self.answered_at = self.clock.now()
                return answer
            self.sleep(pause())

    def sleep(self, seconds: float) -> None:
        """Sleep, at most until the end.

        Raises:
            TimeoutError: The end is reached.
        """
        left = self.end - self.clock.now()
        if left <= 0:
            raise TimeoutError
        self.clock.sleep(min(seconds, left))


def start(connection: Connection, submission: Submission, chosen_id: str | None) -> Started:
    """Start a submission, or find the existing job.

    Args:
        connection: the connection to the job server.
        submission: the submission.
        chosen_id: the requested id: an existing job with this id is never run again. None: the
            next attempt.

    Raises:
        RefusedError: The job server requires another token, or refuses the request.
        UnreachableError: The server was not reached within the limit of patience.
    """
    jobs, asked_for = connection.jobs, ""

    def attempt() -> Started:
        nonlocal asked_for
        name = asked_for or chosen_id
        if name is not None:
            state = jobs.state(name)
        else:
            states = jobs.states()
            name = next_id(submission.base_id, states)
            state = states.get(name)
        if state is not None:  # if it was asked for, the response was lost
            return Started(submission_id=name, was_there=None if asked_for else state)
        asked_for = name
        is_new = jobs.submit(name, submission)
        return Started(submission_id=name, was_there=None if is_new else JobState(status="PENDING"))

    return connection.ask(attempt, lambda: START_PAUSE)
