"""The progress of a run, and estimates of the remaining time of a stage and of the job."""

from dataclasses import dataclass, field

from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    PlannedStage,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.units import format_estimate

TEXT_STAGES = ("count", "tokenize")
"""The stages that read all of the text. The rate of one of them is used for the other if nothing
better is known."""

MIN_SECONDS = 5.0
"""A shorter stage of the last run does not show its rate, because starting it takes too long."""


@dataclass(slots=True)
class StageProgress:
    """The progress of the current stage."""

    started: StageStarted
    since: float
    """Start of the stage, by the clock of the caller."""
    last: Advanced | None = None
    estimate: int = 0
    """The estimated bytes of the slices that ended."""
    attempts_failed: int = 0

    def take(self, event: Advanced | SliceEnded | AttemptFailed) -> None:
        """Update the progress from an event."""
        match event:
            case Advanced():
                self.last = event
            case SliceEnded():
                self.estimate += event.estimate
            case AttemptFailed():
                self.attempts_failed += event.slices

    @property
    def done(self) -> int:
        """The number of slices (or merges) that have ended."""
        return 0 if self.last is None else self.last.done

    def left(self, now: float) -> float | None:
        """Estimate the remaining seconds; None while there is no basis for an estimate.

        The estimate uses bytes, because slices differ in size and the largest start first. There is
        no estimate before as many slices have ended as run at a time, unless half have ended.
        """
        last = self.last
        if last is None or last.done <= 0:
            return None
        if last.done < last.running and 2 * last.done < last.todo:
            return None
        done, todo = self._done_of_todo(last)
        return (now - self.since) * max(0, todo - done) / done if done else None

    def rate(self, now: float) -> float | None:
        """Return the bytes of text per second so far; None before the first bytes."""
        if self.last is None or not self.last.num_bytes or now <= self.since:
            return None
        return self.last.num_bytes / (now - self.since)

    def _done_of_todo(self, last: Advanced) -> tuple[int, int]:
        """Return the done and the total amount, in bytes if both are known, else in slices."""
        todo = self.started.num_bytes
        done = self.estimate or last.num_bytes
        if last.done == last.todo or not todo or not done:
            return last.done, last.todo
        return done, todo


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """An estimate of the remaining time of a job."""

    seconds: float
    is_least: bool
    """Whether the estimate is a minimum, because the time of some stages is unknown."""

    def text(self) -> str:
        """Return the estimate as text.

        >>> TimeLeft(125.0, is_least=True).text(), TimeLeft(125.0, is_least=False).text()
        ('over 2 min 5 s', 'about 2 min 5 s')
        """
        text = format_estimate(self.seconds)
        if not self.is_least:
            return text
        return f"over {text.removeprefix('about ').removeprefix('under ')}"


@dataclass(slots=True)
class Forecast:
    """The stages of a run, started and planned, and their times."""

    planned: list[PlannedStage] = field(default_factory=list)
    """All stages in order, including those that have started."""
    number: int = 0
    """The number of the last stage that started, counted from 1; 0 before the first."""
    rate: float | None = None
    """Bytes of text per second in the last stage that read text."""

    def begin(self, name: str, *, todo: int, num_bytes: int) -> None:
        """Record that a stage starts: the next planned stage of its name, or an unplanned one.

        A stage can start several times, for example counting with `limits.max_chars`.
        """
        ahead = [planned.name for planned in self.planned[self.number :]]
        if not todo and name not in ahead:
            return
        is_again = self.number > 0 and self.planned[self.number - 1].name == name
        if name in ahead and not (is_again and ahead[0] != name):
            skipped = ahead.index(name)
            del self.planned[self.number : self.number + skipped]
            self.number += 1
        elif not is_again:
            self.planned.insert(self.number, PlannedStage(name=name, num_bytes=num_bytes))
            self.number += 1

    def end(self, stage: StageEnded) -> None:
        """Record that a stage has ended."""
        if stage.stage in TEXT_STAGES and stage.num_bytes and stage.seconds > 0:
            self.rate = stage.num_bytes / stage.seconds

    @property
    def position(self) -> str:
        """Return "2 of 5", or an empty text if there is one stage or none has started."""
        is_known = self.number > 0 and len(self.planned) > 1
        return f"{self.number} of {len(self.planned)}" if is_known else ""

    def left(self, stage_left: float | None, rate: float | None = None) -> TimeLeft | None:
        """Estimate the remaining time of the job; None if unknown, or if no stage follows.

        Args:
            stage_left: Remaining seconds of the current stage; None if unknown.
            rate: Bytes of text per second in that stage; None if unknown, or if it reads no text.
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
    """Return the expected seconds of a stage, from its last run or the rate of this run."""
    if stage.seconds is not None:
        return stage.seconds
    return stage.num_bytes / rate if stage.num_bytes and rate else None
