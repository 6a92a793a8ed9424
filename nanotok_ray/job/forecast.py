"""How far a run is, and about how long it takes yet: of one stage, and of the whole job."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    PlannedStage,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.units import format_estimate

if TYPE_CHECKING:
    from nanotok_ray.job.decide import JobPlan

TEXT_STAGES = ("count", "tokenize")
"""The stages that read all of the text. A rate that was measured in one of them is taken for the
other where nothing better is known."""

LEAST_SECONDS = 5.0
"""A stage of the last run that was over sooner says more of its start than of its speed."""


@dataclass(slots=True)
class StageProgress:
    """A stage that runs."""

    started: StageStarted
    since: float
    """When it began, by the clock of the caller."""
    last: Advanced | None = None
    estimate: int = 0
    """Of the slices that ended: estimated bytes, as in what is to do."""
    attempts_failed: int = 0

    def take(self, event: Advanced | SliceEnded | AttemptFailed) -> None:
        """Take what happened."""
        match event:
            case Advanced():
                self.last = event
            case SliceEnded():
                self.estimate += event.estimate
            case AttemptFailed():
                self.attempts_failed += event.slices

    @property
    def done(self) -> int:
        """Slices (or merges) that have ended."""
        return 0 if self.last is None else self.last.done

    def left(self, now: float) -> float | None:
        """Estimate the seconds that are left; None while there is nothing to go by.

        Slices differ in size and the largest go first, so it is bytes that count. As long as not
        even one slice has ended for each that runs, a first few say nothing of the others.
        """
        last = self.last
        if last is None or last.done <= 0:
            return None
        if last.done < last.running and 2 * last.done < last.todo:
            return None
        done, todo = self._done_of_todo(last)
        return (now - self.since) * max(0, todo - done) / done if done else None

    def rate(self, now: float) -> float | None:
        """Return the bytes of text per second so far; None while there are none."""
        if self.last is None or not self.last.num_bytes or now <= self.since:
            return None
        return self.last.num_bytes / (now - self.since)

    def _done_of_todo(self, last: Advanced) -> tuple[int, int]:
        """Return how much is done of how much, in bytes if both are known, else in numbers."""
        todo = self.started.num_bytes
        done = self.estimate or last.num_bytes
        if last.done == last.todo or not todo or not done:
            return last.done, last.todo
        return done, todo


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """About how long a job takes yet."""

    seconds: float
    is_least: bool
    """Whether there are stages of which nothing is known, which come on top of it."""

    def text(self) -> str:
        """Return it for people.

        >>> TimeLeft(125.0, is_least=True).text(), TimeLeft(125.0, is_least=False).text()
        ('over 2 min 5 s', 'about 2 min 5 s')
        """
        text = format_estimate(self.seconds)
        if not self.is_least:
            return text
        return f"over {text.removeprefix('about ').removeprefix('under ')}"


@dataclass(slots=True)
class Forecast:
    """The stages of a run: those that were begun, and those that are planned."""

    planned: list[PlannedStage] = field(default_factory=list)
    """In order, the begun ones included."""
    number: int = 0
    """Of the stage that was begun last, from 1 on; 0: none was."""
    rate: float | None = None
    """Bytes of text per second in the last stage that read text."""

    def begin(self, stage: StageStarted) -> None:
        """Take the begin of a stage: the next that is planned under its name, or another one.

        A stage may be begun several times, as counting is with `limits.max_chars`.
        """
        ahead = [planned.name for planned in self.planned[self.number :]]
        if not stage.todo and stage.stage not in ahead:
            return
        is_again = self.number > 0 and self.planned[self.number - 1].name == stage.stage
        if stage.stage in ahead and not (is_again and ahead[0] != stage.stage):
            skipped = ahead.index(stage.stage)
            del self.planned[self.number : self.number + skipped]
            self.number += 1
        elif not is_again:
            self.planned.insert(
                self.number, PlannedStage(name=stage.stage, num_bytes=stage.num_bytes)
            )
            self.number += 1

    def end(self, stage: StageEnded) -> None:
        """Take the end of a stage."""
        if stage.stage in TEXT_STAGES and stage.num_bytes and stage.seconds > 0:
            self.rate = stage.num_bytes / stage.seconds

    @property
    def position(self) -> str:
        """Return "2 of 5"; empty where there is one stage, or none was begun."""
        is_known = self.number > 0 and len(self.planned) > 1
        return f"{self.number} of {len(self.planned)}" if is_known else ""

    def left(self, stage_left: float | None, rate: float | None = None) -> TimeLeft | None:
        """Estimate what is left of the job; None while nothing is known, or no stage follows.

        Args:
            stage_left: seconds that are left of the stage that runs; None: not known.
            rate: bytes of text per second in that stage; None: not known, or it reads no text.
        """
        ahead = self.planned[self.number :]
        if stage_left is None or not ahead:
            return None
        if self.planned[self.number - 1].name not in TEXT_STAGES:
            rate = None
        times = [_seconds(stage, rate or self.rate) for stage in ahead]
        known = [seconds for seconds in times if seconds is not None]
        return TimeLeft(stage_left + sum(known), is_least=len(known) < len(times))


def _seconds(stage: PlannedStage, rate: float | None) -> float | None:
    """Return what a stage may take, by its last run, else by the rate of this run."""
    if stage.seconds is not None:
        return stage.seconds
    return stage.num_bytes / rate if stage.num_bytes and rate else None


def planned_stages(plan: "JobPlan", last: Mapping[str, Any]) -> Iterator[PlannedStage]:
    """Yield the stages that a job has before it.

    Args:
        plan: what the job does.
        last: seconds and bytes of each stage in the last run of this output.
    """
    values = plan.values
    if values.get("learn", {}).get("todo"):
        if values["count"]["todo"]:
            yield _planned("count", last, size=values["count"]["bytes"])
        yield _planned("reduce", last)
        yield _planned("learn", last)
    if plan.command != "train" and plan.output is None:
        if values["tokenize"]["todo"]:
            yield _planned("tokenize", last, size=values["tokenize"]["bytes"])
        # Here it compares records; their files were checked as they were written.
        yield _planned("verify", last, seconds=0.0)
    for exporting in plan.exports:
        if exporting.todo:
            yield _planned("export", last)


def _planned(
    name: str, last: Mapping[str, Any], *, size: int = 0, seconds: float | None = None
) -> PlannedStage:
    stage = last.get(name)
    if stage is not None and not size:
        seconds = stage["seconds"]
    elif stage is not None and stage["bytes"] and stage["seconds"] >= LEAST_SECONDS:
        seconds = stage["seconds"] * size / stage["bytes"]
    return PlannedStage(name=name, num_bytes=size, seconds=seconds)
