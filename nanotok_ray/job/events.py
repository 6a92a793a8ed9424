"""The events of a running job as values. The command line shows them as bars and lines.

The journal stores some of them, with their fields in the order of these definitions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanotok_ray.formats.codec import Finite, Number, omitted

if TYPE_CHECKING:
    from nanotok_ray.tokenizer import Made


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note for the user."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """An activity of the run outside of the stages, for example "starting Ray"."""

    text: str
    done: int = 0
    todo: int = 0
    """The number of steps, for example of files to read; 0 if the activity has no steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedStage:
    """A stage that a run will have."""

    name: str
    num_bytes: Number = 0
    """The estimated bytes to process, as in `StageStarted`."""
    seconds: Finite | None = None
    """The estimated seconds, from the last run of this output; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The run has decided on its stages. Other stages can run between them."""

    stages: tuple[PlannedStage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStarted:
    """A stage starts: count, merge, reduce, learn, tokenize or verify."""

    stage: str
    todo: int
    """The number of slices (or count files, merges, spans) to process."""
    num_done: int
    """The number of slices that were finished before."""
    num_bytes: int
    """The estimated bytes to process; 0 if the stage is not measured in bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advanced:
    """The stage has processed `done` slices (or merges) of `todo`."""

    stage: str
    done: int
    todo: int
    num_bytes: int
    """Bytes of text processed so far in this run."""
    failed: int = 0
    running: int = 0
    """The number of attempts that seem to run; 0 if unknown."""
    last: "Made | None" = None
    """In learning, the last merge: its pair, the bytes of its token, and the count of the pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEnded:
    """A stage has ended."""

    stage: str
    seconds: float
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceEnded:
    """One slice (or group of count files, shard, unit, two splits) has succeeded or failed."""

    stage: str
    name: str
    began: Finite
    """Start of its last attempt in seconds since 1970 by the clock of its worker; 0 if unknown."""
    seconds: Finite
    """The duration of that attempt in its worker."""
    num_bytes: Number
    """The bytes of text of the slice; 0 if it failed."""
    worker: str
    """The host and the process of that attempt."""
    attempts: Number
    estimate: Number = 0
    """The estimated bytes of the slice, as in `StageStarted`."""
    slices: Number = omitted(1)
    """The number of slices: 2 if both splits were written from one read."""
    error: str | None = omitted()
    """Why the slice failed; None if it succeeded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFailed:
    """An attempt at a slice (or at two splits) failed; it may be tried again."""

    stage: str
    name: str
    slices: Number
    cause: str
    """The cause of the failure, in words."""
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterSize:
    """The current size of the cluster."""

    cpus: Number
    nodes: Number
    """The number of its nodes, with those that run no slices."""


Event = (
    Note
    | Activity
    | Planned
    | StageStarted
    | Advanced
    | SliceEnded
    | AttemptFailed
    | StageEnded
    | ClusterSize
)
OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Ignore an event."""
