"""A task and what became of it: the values that the engine of both fan-outs takes and gives.

Does not know what a task does, nor Ray.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import NanotokError

SHOWN_INPUTS = 3


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
    def told_inputs(self) -> str:
        """The first input files, as a person reads them; empty if there are none.

        >>> Task(name="a", work=len, argument="", num_bytes=0, inputs=("a.gz", "b.gz")).told_inputs
        'a.gz, b.gz'
        """
        more = len(self.inputs) - SHOWN_INPUTS
        shown = ", ".join(self.inputs[:SHOWN_INPUTS])
        return f"{shown} and {more} more files" if more > 0 else shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
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
    """How often it was given to a worker."""
