"""What is submitted, what is known of a job, and what the loops need of a job server and a clock.

Does not know Ray: its client is `ray_jobs.RayJobs`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

SUCCEEDED, FAILED, STOPPED = "SUCCEEDED", "FAILED", "STOPPED"
ENDED = frozenset({SUCCEEDED, FAILED, STOPPED})
"""Statuses that no job leaves; the others are PENDING and RUNNING."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One recipe, ready to be submitted."""

    base_id: str
    """Stands for all that is below: the first attempt has it as its id, others `-2`, `-3`, ..."""
    entrypoint: str
    """The command of the driver, for a shell."""
    files: Mapping[str, bytes]
    """All files of the working directory: the recipe alone."""
    variables: Mapping[str, str]
    """Environment of the job."""
    digest: str
    """Of all of this, hex."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobState:
    """What the job server says of a job."""

    status: str
    exit_code: int | None = None
    """Of the driver; None while it runs, and where it never started."""
    message: str = ""
    digest: str | None = None
    """The `Submission.digest` it was submitted with, if it was submitted by this command."""

    @property
    def has_ended(self) -> bool:
        """Whether the status is the last one.

        >>> JobState(status="STOPPED").has_ended, JobState(status="PENDING").has_ended
        (True, False)
        """
        return self.status in ENDED


class Jobs(Protocol):
    """A job server. Every method may raise `UnreachableError`."""

    def states(self) -> Mapping[str, JobState]:
        """Give all jobs that were submitted, by id."""

    def state(self, submission_id: str) -> JobState | None:
        """Give one job; None if there is none of this id."""

    def submit(self, submission_id: str, submission: Submission) -> bool:
        """Start a job; False if there is one of this id already."""


class Log(Protocol):
    """What a job prints, as far as it is to be had: nothing here raises."""

    def take(self) -> list[str]:
        """Give the lines that came since the last call."""

    def finish(self) -> None:
        """Wait a moment for the last lines of a job that has ended."""


class Clock(Protocol):
    """The time that goes by."""

    def now(self) -> float:
        """Give seconds since some moment."""

    def wait(self, seconds: float) -> None:
        """Return after so many seconds."""


class WallClock:
    """The clock of this machine, never set back."""

    def now(self) -> float:
        """Give seconds since some moment."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Return after so many seconds."""
        time.sleep(seconds)
