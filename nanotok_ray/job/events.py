"""The events of a running job, as values: the command line shows them as bars and lines.

Rows of the journal have their fields in the order in which they are here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nanotok_ray.tokenizer import Made


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something a person should know."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity:
    """What the run does before, between and after the stages, for example "starting Ray"."""

    text: str
    done: int = 0
    todo: int = 0
    """How many files are looked at, for example; 0 where there is nothing to count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedStage:
    """A stage that a run has before it."""

    name: str
    num_bytes: int = 0
    """Estimated bytes to do, as in `StageStarted`."""
    seconds: float | None = None
    """What it may take, by the last run of this output; None: not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The run has decided which stages there will be; others may come between them."""

    stages: tuple[PlannedStage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStarted:
    """A stage begins: count, merge, reduce, learn, tokenize or verify."""

    stage: str
    todo: int
    """Slices (or count files, merges, spans) to do."""
    num_done: int
    """Slices whose results were there already."""
    num_bytes: int
    """Estimated bytes to do; 0 where the stage is not measured in bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Advanced:
    """Part of the stage is done: `done` slices (or merges) of `todo`."""

    stage: str
    done: int
    todo: int
    num_bytes: int
    """Bytes of text done so far in this run."""
    failed: int = 0
    running: int = 0
    """Calls that seem to run; 0 where that is not known."""
    last: "Made | None" = None
    """Learning: the last merge; its pair, the bytes of its token, how often the pair occurred."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEnded:
    """A stage is over."""

    stage: str
    seconds: float
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceEnded:
    """One slice (or group of count files, shard, unit, two splits) has succeeded or failed."""

    stage: str
    name: str
    began: float
    """When its last attempt began: seconds since 1970 by the clock of its worker; 0: not known."""
    seconds: float
    """What that attempt took in its worker."""
    num_bytes: int
    """Bytes of text that it stands for; 0 if it failed."""
    worker: str
    """Host and process of that attempt."""
    attempts: int
    estimate: int = 0
    """Bytes that it was estimated to have, as in `StageStarted`."""
    slices: int = 1
    """How many it is: 2 where both splits were written from one read."""
    error: str | None = None
    """Why it failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFailed:
    """An attempt at some slices failed; they may be tried again."""

    stage: str
    name: str
    """Of the first slice."""
    slices: int
    cause: str
    """In words, one of a few."""
    text: str


Event = (
    Note | Activity | Planned | StageStarted | Advanced | SliceEnded | AttemptFailed | StageEnded
)
OnEvent = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Ignore an event."""
