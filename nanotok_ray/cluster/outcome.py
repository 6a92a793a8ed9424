"""How an attempt at a slice ended: what a call gives back for each of its slices, and causes.

Plain values that travel between workers and the driver. Do not know what is done about a failure.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from nanotok_ray.errors import NanotokError


class Cause(Enum):
    """Why an attempt gave no result."""

    ERROR = "it raised an error that will come again"
    STORAGE = "storage failed in a way that may pass"
    WORKER = "its worker process died"
    MEMORY = "its node ran out of memory"
    NODE = "its node went away"
    SLOW = "it ran past its deadline and was given up"
    CALL = "the call failed as a whole"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt gave no result, and in words."""

    cause: Cause
    text: str
    raised: NanotokError | None = None
    """The error itself, where the slice's own code raised it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt at one slice gave, where and when."""

    result: Any = None
    seconds: float = 0.0
    failure: Failure | None = None
    began: float = 0.0
    """Seconds since 1970, by the clock of its worker; 0 where no worker told."""
    worker: str = ""
    """Host and process: `node-7/1234`."""
