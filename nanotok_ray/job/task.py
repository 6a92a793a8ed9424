"""A task and its result, the causes of failures, and how often and when attempts are repeated."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nanotok_ray.errors import NanotokError

MAX_LISTED_INPUTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """A folder that every node must see as the driver sees it."""

    url: str
    """Absolute path or URL."""
    probes: str
    """Name of the place in it for probe files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One slice of one stage: `work(argument)`, which may run twice and must not mind."""

    name: str
    """What a person sees in Ray's lists."""
    work: Callable[[Any], Any]
    argument: Any
    num_bytes: int
    """Estimated bytes it reads."""
    inputs: tuple[str, ...] = ()
    """The files it reads, for messages."""
    slices: int = 1
    """How many slices it stands for: 2 where both splits are written from one read."""
    shared: tuple[SharedFolder, ...] = ()
    """Folders it writes to or reads from, on storage that all nodes share."""

    @property
    def inputs_text(self) -> str:
        """The first input files, as a person reads them; empty if there are none.

        >>> Task(name="a", work=len, argument="", num_bytes=0, inputs=("a.gz", "b.gz")).inputs_text
        'a.gz, b.gz'
        """
        more = len(self.inputs) - MAX_LISTED_INPUTS
        text = ", ".join(self.inputs[:MAX_LISTED_INPUTS])
        return f"{text} and {more} more files" if more > 0 else text


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """What became of a task: a result, or why there is none."""

    task: Task
    result: Any = None
    seconds: float = 0.0
    """Time of the attempt that succeeded, in its worker."""
    began: float = 0.0
    """When that attempt began, in seconds since 1970 by the clock of its worker; 0: not known."""
    worker: str = ""
    """Host and process of that attempt: `node-7/1234`."""
    error: str | None = None
    raised: NanotokError | None = None
    """What the task itself raised, if that is why there is no result."""
    attempts: int = 1
    """How often it was sent to a worker."""


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
class AttemptResult:
    """What one attempt at one slice gave, where and when."""

    result: Any = None
    seconds: float = 0.0
    failure: Failure | None = None
    began: float = 0.0
    """Seconds since 1970, by the clock of its worker; 0 where no worker reported it."""
    worker: str = ""
    """Host and process: `node-7/1234`."""


GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """The limits of one stage. Waits are in seconds."""

    storage_failures: int = 6
    """A slice fails permanently after so many transient failures of storage."""
    worker_deaths: int = 3
    """The same for workers that died while they had this slice alone."""
    memory_failures: int = 3
    """The same for nodes that ran out of memory while a worker had this slice alone."""
    lost_nodes: int = 21
    """The same for nodes that went away: no fault of the slice."""
    missed_deadlines: int = 2
    """The same for attempts that had this slice alone and were given up at their deadline."""
    deadline: float = 3600.0
    """Seconds that a batch may run for each started GiB of its slices: a third of a megabyte a
    second, a thirtieth of what a slow CPU does with text that ten to one was compressed."""
    first_wait: float = 1.0
    """Before the second attempt; doubles with each further one."""
    longest_wait: float = 30.0
    overdue_floor: float = 30.0
    """No batch is tried a second time beside the first before it has run for this long."""
    overdue_factor: float = 3.0
    """... nor before it has run for so many times what calls of its size take."""
    speculative_attempts: int = 3
    """How often a batch is tried beside itself; more than once if such attempts fail."""
    superseded_grace: float = 30.0
    """A batch that was interrupted, as its other attempt was first, is killed after so long."""

    @property
    def limits(self) -> Mapping[Cause, int]:
        """How many failures of a cause end a slice."""
        return {
            Cause.ERROR: 1,
            Cause.CALL: 1,
            Cause.STORAGE: self.storage_failures,
            Cause.WORKER: self.worker_deaths,
            Cause.MEMORY: self.memory_failures,
            Cause.NODE: self.lost_nodes,
            Cause.SLOW: self.missed_deadlines,
        }

    def deadline_of(self, num_bytes: int) -> float:
        """Return the seconds that a batch of so many bytes may run.

        >>> RetryPolicy().deadline_of(1), RetryPolicy().deadline_of(20 << 30)
        (3600.0, 72000.0)
        """
        return self.deadline * max(1, -(-num_bytes // GIB))

    def wait(self, failures: int, jitter: random.Random) -> float:
        """Return the seconds to wait after that many failures, half of the nominal at least."""
        nominal = self.first_wait * 2.0 ** min(failures - 1, 30)
        return min(self.longest_wait, nominal) * jitter.uniform(0.5, 1.0)
