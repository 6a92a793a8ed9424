"""Metrics of a run for Prometheus, through Ray, created once in the driver with few tags.

The input is events. Without Ray nothing is done, and a failure here never fails a job. Ray
prepends `ray_` to each name. Only the driver has metrics of this package: tasks are short-lived,
and those of each worker would be a separate series.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    Event,
    SliceEnded,
    StageEnded,
    StageStarted,
)

FLUSH_SECONDS = 1.0
"""Seconds between updates of Ray's metrics, since up to 200,000 slices end in a job."""

SLICE_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1200, 3600)
"""Boundaries of the histogram."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """A metric in the form in which it is registered with Ray."""

    name: str
    kind: Literal["Counter", "Gauge", "Histogram"]
    text: str
    """Its description."""
    tags: tuple[str, ...] = ("stage",)


SLICES_TODO = Metric(
    name="nanotok_slices_todo",
    kind="Gauge",
    text="Slices (count files, merges) to do in this run, including those that are done.",
)
SLICES_DONE = Metric(
    name="nanotok_slices_done",
    kind="Gauge",
    text="Slices (count files, merges) that have ended in this run, successfully or not.",
)
SLICES_FAILED = Metric(
    name="nanotok_slices_failed",
    kind="Gauge",
    text="Slices that have failed after all attempts in this run.",
)
NUM_BYTES = Metric(
    name="nanotok_bytes",
    kind="Counter",
    text="Bytes of text that were counted or tokenized; of count files where those are summed.",
)
SECONDS = Metric(
    name="nanotok_slice_seconds",
    kind="Histogram",
    text="Seconds of the attempt that ended a slice, in its worker.",
)
ATTEMPTS_FAILED = Metric(
    name="nanotok_attempts_failed",
    kind="Counter",
    text="Attempts at slices that failed and may have been tried again.",
    tags=("stage", "cause"),
)
STAGE_SECONDS = Metric(
    name="nanotok_stage_seconds",
    kind="Gauge",
    text="Seconds that a stage has taken so far, or took.",
)

METRICS = (
    *(SLICES_TODO, SLICES_DONE, SLICES_FAILED, NUM_BYTES),
    *(SECONDS, ATTEMPTS_FAILED, STAGE_SECONDS),
)


_INSTRUMENTS: dict[str, Any] = {}
"""The metrics of this process by name; Ray requires each to be created once."""


def is_ray_there() -> bool:
    """Return whether this process has a session of Ray."""
    ray = sys.modules.get("ray")  # the session imports it
    return ray is not None and bool(ray.is_initialized())


def ray_instrument(metric: Metric) -> Any:  # noqa: ANN401 - Ray's classes are not imported here
    """Return the instrument of a metric."""
    if metric.name not in _INSTRUMENTS:
        from ray.util import metrics  # noqa: PLC0415 - the session has set its environment

        more = {"boundaries": list(SLICE_SECONDS)} if metric.kind == "Histogram" else {}
        make = getattr(metrics, metric.kind)
        instrument = make(metric.name, description=metric.text, tag_keys=metric.tags, **more)
        _INSTRUMENTS[metric.name] = instrument
    return _INSTRUMENTS[metric.name]


@dataclass(slots=True)
class Metrics:
    """The numbers of a run that are passed to Ray."""

    instrument: Callable[[Metric], Any] = ray_instrument
    is_there: Callable[[], bool] = is_ray_there
    now: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    _began: float = 0.0
    _flushed: float = 0.0
    _last: Advanced | None = None
    _num_bytes: int = 0
    """Bytes of the stage that were reported already."""
    _attempts: Counter[str] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        """Process an event."""
        with suppress(Exception):  # a failure of metrics must not fail a job
            if self.is_there():
                self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case StageStarted():
                self._start(event)
            case SliceEnded(stage=stage, error=None):
                self.instrument(SECONDS).observe(event.seconds, tags={"stage": stage})
            case AttemptFailed():
                self._attempts[event.cause] += event.slices
            case Advanced():
                self._last = event
                if self.now() - self._flushed >= FLUSH_SECONDS:
                    self._flush(event.stage)
            case StageEnded():
                self._flush(event.stage)
                self.instrument(STAGE_SECONDS).set(event.seconds, tags={"stage": event.stage})

    def _start(self, event: StageStarted) -> None:
        self._began = self._flushed = self.now()
        self._last, self._num_bytes = None, 0
        tags = {"stage": event.stage}
        self.instrument(SLICES_TODO).set(event.todo, tags=tags)
        for metric in (SLICES_DONE, SLICES_FAILED, STAGE_SECONDS):
            self.instrument(metric).set(0, tags=tags)

    def _flush(self, stage: str) -> None:
        """Pass the collected numbers to Ray."""
        self._flushed = self.now()
        tags = {"stage": stage}
        for cause, number in self._attempts.items():
            self.instrument(ATTEMPTS_FAILED).inc(number, tags={**tags, "cause": cause})
        self._attempts.clear()
        self.instrument(STAGE_SECONDS).set(self._flushed - self._began, tags=tags)
        if self._last is None:
            return
        self.instrument(SLICES_DONE).set(self._last.done, tags=tags)
        self.instrument(SLICES_FAILED).set(self._last.failed, tags=tags)
        if self._last.num_bytes > self._num_bytes:
            self.instrument(NUM_BYTES).inc(self._last.num_bytes - self._num_bytes, tags=tags)
            self._num_bytes = self._last.num_bytes
