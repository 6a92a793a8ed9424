"""What a journal says: one run, its stages, slices, failures, and how it ended.

Plain values; times are seconds since 1970 by the driver's clock, but for `began` of a slice, which
is by its worker's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DONE, FAILED, INTERRUPTED, TERMINATED = ENDS = ("done", "failed", "interrupted", "terminated")
"""How a run may end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Happened:
    """A note, with its time."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of the run; one that was run twice (count with max_chars) is here twice."""

    name: str
    at: float
    """When it began."""
    todo: int
    """Slices (count files, merges, spans) to do."""
    kept: int
    """Slices that were done already."""
    num_bytes: int
    """Estimated bytes to do; 0 where the stage is not measured in bytes."""
    done: int = 0
    failed: int = 0
    done_bytes: int = 0
    progress: tuple[tuple[float, int, int], ...] = ()
    """Of stages without slices: time, done, todo, now and then."""
    seconds: float | None = None
    """What it took; None: it has not ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalledSlice:
    """A slice (or group of count files, or unit of an export) that ended in this run."""

    stage: str
    name: str
    at: float
    began: float
    """By its worker's clock; 0: not known."""
    seconds: float
    num_bytes: int
    worker: str
    """Host and process: `node-7/1234`."""
    attempts: int
    error: str | None = None
    estimate: int = 0
    """Bytes that it was estimated to have, as in `Stage.num_bytes`."""
    slices: int = 1
    """How many it is: 2 where both splits were written from one read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """An attempt that failed and may have been tried again."""

    stage: str
    name: str
    at: float
    slices: int
    cause: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJournal:
    """All that the journal of one run says so far."""

    run: int
    head: Mapping[str, Any]
    """command, arguments (the process's own command line), started, host, pid, ray_job, version,
    core, python, ray, cpus, nodes, recipe (its text), and work (URL of the work folder)."""
    last_at: float
    """When the last event was written down."""
    notes: tuple[Happened, ...] = ()
    stages: tuple[Stage, ...] = ()
    slices: tuple[JournalledSlice, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    end: Mapping[str, Any] | None = field(default=None)
    """status (one of ENDS), error, seconds; None: no end."""
    missing_segments: int = 0
    """Segments that are gone or cannot be read, between others."""
