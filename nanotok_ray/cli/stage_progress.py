"""How far a stage is, from its events and the time: a few words, and how long it may take yet.

Takes events and seconds; knows neither bars nor streams.
"""

from dataclasses import dataclass

from nanotok_ray.job.events import Advanced, AttemptFailed, SliceEnded, StageStarted
from nanotok_ray.job.outlook_text import duration

UNITS = {"reduce": "count files", "learn": "merges", "span table": "spans"}


def unit_of(stage: str) -> str:
    """Give what a stage counts.

    >>> unit_of("learn"), unit_of("tokenize")
    ('merges', 'slices')
    """
    return UNITS.get(stage, "slices")


def counted(number: int, stage: str) -> str:
    """Give a number of what a stage counts.

    >>> counted(1, "tokenize"), counted(2000, "learn")
    ('1 slice', '2,000 merges')
    """
    unit = unit_of(stage)
    return f"{number:,} {unit[:-1] if number == 1 else unit}"


@dataclass(slots=True)
class StageProgress:
    """A stage that goes on."""

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

    def line(self, now: float) -> str:
        """Give the line of a log."""
        stage = self.started.stage
        return f"{stage}: {self.done:,} of {counted(self.started.todo, stage)}{self.told(now)}"

    def told(self, now: float, *, elapsed: bool = True) -> str:
        """Say the rest: what runs, rate, time left (or so far, if none can be told), failures."""
        parts = []
        seconds, left = now - self.since, self.left(now)
        if self.last is not None and self.last.running and self.done < self.last.todo:
            tasks = "task" if self.last.running == 1 else "tasks"
            parts.append(f"{self.last.running:,} {tasks} running")
        if self.last is not None and self.last.num_bytes and seconds > 0:
            parts.append(f"{self.last.num_bytes / 1e6 / seconds:,.1f} MB/s")
        if left is not None:
            parts.append(f"{duration(left)} left")
        elif elapsed:
            parts.append(f"{duration(seconds).removeprefix('about ')} so far")
        if self.last is not None and self.last.failed:
            parts.append(f"{self.last.failed:,} failed")
        if self.attempts_failed:
            parts.append(f"{self.attempts_failed:,} attempts failed and tried again")
        return "".join(f", {part}" for part in parts)

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

    def _done_of_todo(self, last: Advanced) -> tuple[int, int]:
        """Give how much is done of how much, in bytes if both are known, else in numbers."""
        todo = self.started.num_bytes
        done = self.estimate or last.num_bytes
        if last.done == last.todo or not todo or not done:
            return last.done, last.todo
        return done, todo
