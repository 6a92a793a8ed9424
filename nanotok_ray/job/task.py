"""A task and its result, the causes of failures, and how often and when attempts are repeated."""

import importlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nanotok_ray.errors import NanotokError
from nanotok_ray.storage import backoff

MAX_LISTED_INPUTS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """A folder that every node must see as the driver sees it."""

    url: str
    """Absolute path or URL."""
    probes: str
    """Name of the place in it for probe files."""


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """The library that encodes, which every node must have in the version of the driver."""

    version: str
    """Name and version: `tokenizers 0.23.3`."""

    @property
    def what_to_do(self) -> str:
        """The advice for a node with another version."""
        return f"install {self.version} on every node, as it is where the job runs"

    def problem(self) -> str | None:
        """Return what this process has instead, or None."""
        found = installed_version(self.version.partition(" ")[0])
        return None if found == self.version else f"found {found}"


def installed_version(library: str, *_: object) -> str:
    """Return the name and version of a library of tokenizers, or that it cannot be imported.

    >>> installed_version("no_such_library")
    "no package no_such_library (No module named 'no_such_library')"
    """
    try:
        return f"{library} {importlib.import_module(library).__version__}"
    except Exception as error:  # the import runs code of any package
        return f"no package {library} ({error})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A call `work(argument)` for a slice of a stage. It must be idempotent: it can run twice."""

    name: str
    """The name that Ray's task lists show."""
    work: Callable[[Any], Any]
    argument: Any
    num_bytes: int
    """Estimated bytes it reads."""
    inputs: tuple[str, ...] = ()
    """The files it reads, for messages."""
    slices: int = 1
    """Number of slices that the task writes: 2 if both splits are written from one read."""
    shared: tuple[SharedFolder | SharedLibrary, ...] = ()
    """Folders it writes to or reads from, on storage that all nodes share, and what encodes."""

    @property
    def inputs_text(self) -> str:
        """The first input files as text for messages; empty if the task has no input files.

        >>> Task(name="a", work=len, argument="", num_bytes=0, inputs=("a.gz", "b.gz")).inputs_text
        'a.gz, b.gz'
        """
        more = len(self.inputs) - MAX_LISTED_INPUTS
        text = ", ".join(self.inputs[:MAX_LISTED_INPUTS])
        return f"{text} and {more} more files" if more > 0 else text


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskResult:
    """The outcome of a task: its result, or the reason why it has no result."""

    task: Task
    result: Any = None
    seconds: float = 0.0
    """Time of the attempt that succeeded, in its worker."""
    began: float = 0.0
    """Start of that attempt in seconds since 1970, by the clock of its worker; 0 if unknown."""
    worker: str = ""
    """Host and process of that attempt: `node-7/1234`."""
    error: str | None = None
    raised: NanotokError | None = None
    """The error that the task itself raised, if it failed for that reason."""
    attempts: int = 1
    """Number of times that the task was sent to a worker."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a cluster."""

    id: str
    name: str
    """Address and host name: `10.0.0.7 (worker-3)`."""


class Cause(Enum):
    """The cause of a failed attempt."""

    ERROR = "it raised an error that will come again"
    SETUP = "its node may lack a file, a package or a permission"
    UNFIT = "its node cannot run slices of this job"
    STORAGE = "storage failed in a way that may pass"
    WORKER = "its worker process died"
    MEMORY = "its node ran out of memory"
    NODE = "its node went away"
    SLOW = "it ran past its deadline and was given up"
    CALL = "the call failed as a whole"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an attempt: its cause and a description."""

    cause: Cause
    text: str
    raised: NanotokError | None = None
    """The error itself, where the slice's own code raised it, or the node is unfit."""
    node: Node | None = None
    """The node of the attempt, where a job runs on several."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The outcome of one attempt at one slice, with its worker and its times."""

    result: Any = None
    seconds: float = 0.0
    failure: Failure | None = None
    began: float = 0.0
    """Start in seconds since 1970, by the clock of its worker; 0 if no worker reported it."""
    worker: str = ""
    """Host and process: `node-7/1234`."""


GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """The limits of one stage. Waits are in seconds."""

    storage_failures: int = 6
    """Number of transient storage failures after which a slice fails permanently."""
    worker_deaths: int = 3
    """The same limit for workers that died."""
    memory_failures: int = 3
    """The same limit for nodes that ran out of memory."""
    lost_nodes: int = 21
    """The same limit for lost and unfit nodes; it is high because the slice does not cause them."""
    setup_nodes: int = 3
    """The number of nodes that are tried if a node may be the reason of a failure."""
    missed_deadlines: int = 2
    """The same limit for attempts that were killed at their deadline."""
    deadline: float = 3600.0
    """Seconds that an attempt may run for each GiB of its task, rounded up: 0.3 MB/s, a thirtieth
    of the rate of a slow CPU for text that is compressed to a tenth."""
    first_wait: float = 1.0
    """Wait before the second attempt; it doubles with each further attempt."""
    max_wait: float = 30.0
    overdue_floor: float = 30.0
    """Minimum run time of an attempt before a second one is started beside it."""
    overdue_factor: float = 3.0
    """Minimum run time for the same, as a multiple of the usual time of tasks of this size."""

    @property
    def limits(self) -> Mapping[Cause, int]:
        """The number of failures of each cause after which a slice fails permanently."""
        return {
            Cause.ERROR: 1,
            Cause.CALL: 1,
            Cause.SETUP: self.setup_nodes,
            Cause.UNFIT: self.lost_nodes,
            Cause.STORAGE: self.storage_failures,
            Cause.WORKER: self.worker_deaths,
            Cause.MEMORY: self.memory_failures,
            Cause.NODE: self.lost_nodes,
            Cause.SLOW: self.missed_deadlines,
        }

    def deadline_of(self, num_bytes: int) -> float:
        """Return the seconds that an attempt at a task of `num_bytes` bytes can run.

        >>> RetryPolicy().deadline_of(1), RetryPolicy().deadline_of(20 << 30)
        (3600.0, 72000.0)
        """
        return self.deadline * max(1, -(-num_bytes // GIB))

    def wait(self, failures: int, jitter: random.Random) -> float:
        """Return the seconds to wait after some failures: 50% to 100% of the nominal wait."""
        return backoff(failures, first=self.first_wait, longest=self.max_wait, jitter=jitter)
