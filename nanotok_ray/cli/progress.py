"""Progress for people: a bar in a terminal, a line now and then in a log."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    Event,
    Note,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.job.plan_text import duration
from nanotok_ray.tokenizer.train import Made, MergeProgress
from nanotok_ray.units import printable

if TYPE_CHECKING:
    from typing_extensions import Self

UNITS = {"reduce": "count files", "learn": "merges"}


def unit_of(stage: str) -> str:
    """Return what a stage counts.

    >>> unit_of("learn"), unit_of("tokenize")
    ('merges', 'slices')
    """
    return UNITS.get(stage, "slices")


def counted(number: int, stage: str) -> str:
    """Return a number of what a stage counts.

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
        """Return the line of a log."""
        stage = self.started.stage
        return f"{stage}: {self.done:,} of {counted(self.started.todo, stage)}{self.rest(now)}"

    def rest(self, now: float, *, elapsed: bool = True) -> str:
        """Return the rest of the line: what runs, rate, time left or so far, failures."""
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
        """Return how much is done of how much, in bytes if both are known, else in numbers."""
        todo = self.started.num_bytes
        done = self.estimate or last.num_bytes
        if last.done == last.todo or not todo or not done:
            return last.done, last.todo
        return done, todo


MERGE_LINE_SECONDS = 1.0
"""In a log at most one line in this time, and one a percent; the last merge has one always."""

FEW_MERGES = 50
"""So few have a line each."""

MAX_TOKEN_CHARS = 40
"""Of a token of more bytes so many characters are shown, and how long it is."""


def merge_line(done: int, total: int, last: Made | None, seconds: float) -> str:
    """Return the line for `done` of `total` merges, the last of them, and the rate until now.

    >>> merge_line(3276, 32759, ((256, 257), b" the", 1234567), 0.0728)
    "learn: 3,276 of 32,759 merges (10%), ' the' (256, 257) 1,234,567 times, 45,000 merges/s"

    Args:
        done: merges made.
        total: merges asked for.
        last: the pair that was merged last, the bytes of its token, how often it occurred.
        seconds: since learning began; 0: the rate is left out.
    """
    parts = [f"learn: {done:,} of {total:,} merges ({percent(done, total)}%)"]
    if last is not None:
        pair, token, count = last
        parts.append(f"{token_label(token)} {pair} {count:,} times")
    if seconds > 0:
        parts.append(f"{done / seconds:,.0f} merges/s")
    return ", ".join(parts)


def is_line_due(done: int, total: int, *, percent_before: int, seconds: float) -> bool:
    """Return whether a log gets a line.

    >>> [is_line_due(done, 10, percent_before=0, seconds=0.0) for done in (0, 1)]
    [False, True]
    >>> [is_line_due(10, 9999, percent_before=0, seconds=own) for own in (0.1, 1.0)]
    [False, False]
    >>> [is_line_due(100, 9999, percent_before=0, seconds=own) for own in (0.1, 1.0)]
    [False, True]

    Args:
        done: merges made.
        total: merges asked for.
        percent_before: what the last line said; 0: there is none.
        seconds: since the last line.
    """
    is_due = done == total or total <= FEW_MERGES or seconds >= MERGE_LINE_SECONDS
    return done > 0 and percent(done, total) != percent_before and is_due


def percent(done: int, total: int) -> int:
    """Return whole percents; none of nothing is all of it.

    >>> percent(199, 20_000), percent(0, 0)
    (0, 100)
    """
    return 100 * done // total if total else 100


def token_label(token: bytes) -> str:
    r"""Return a token as a literal of Python, on one line: text if it is UTF-8, else bytes.

    >>> token_label(b"\n"), token_label(b"\xff"), token_label(b"=" * 1000)
    ("'\\n'", "b'\\xff'", "'========================================'... (1,000 bytes)")
    """
    try:
        start = repr(token.decode()[:MAX_TOKEN_CHARS])
    except UnicodeDecodeError:
        start = repr(token[:MAX_TOKEN_CHARS])
    return f"{start}... ({len(token):,} bytes)" if len(token) > MAX_TOKEN_CHARS else start


__all__ = ["LINE_SECONDS", "UNITS", "Progress"]

LINE_SECONDS = 10.0
"""At most one line per stage in this time, where there is no terminal; learning has its own."""

TICK_SECONDS = 1.0
"""How often the thread looks."""

_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"


class Progress:
    """Prints events to a stream; use as a context manager, so that a bar is closed on any exit."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Print to `stream`, with bars if it is a terminal; `clock` returns the time in seconds."""
        self._clock = clock
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._bar: tqdm[Any] | None = None
        self._stage: StageProgress | None = None
        self._last_line = 0.0
        self._percent = 0
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick_on, name="progress", daemon=True)

    def __enter__(self) -> "Self":
        """Print nothing yet."""
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the bar that is open."""
        self._stop.set()
        self._close()
        self._ticker.join(TICK_SECONDS)

    def __call__(self, event: Event) -> None:
        """Print one event, or leave it out if a line came a moment ago."""
        with self._lock:
            match event:
                case Note():
                    self._line(f"note: {event.text}")
                case StageStarted():
                    self._start(event)
                case Advanced():
                    self._advance(event)
                case SliceEnded() | AttemptFailed():
                    if self._stage is not None:
                        self._stage.take(event)
                case StageEnded():
                    self._end(event)

    def tick(self) -> None:
        """Print again how far the stage is, if the last line was long ago."""
        with self._lock:
            if self._stage is None:
                return
            if self._bar is not None:
                self._show(self._stage)
            elif not self._is_terminal:
                self._print_stage_if_due(self._stage)

    def _tick_on(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self.tick()
            except (OSError, ValueError):  # nobody reads any more: the job itself fails
                return

    def _start(self, event: StageStarted) -> None:
        self._close()
        self._last_line = self._clock()
        self._percent = 0
        size = f", about {event.num_bytes / 1e6:,.1f} MB" if event.num_bytes else ""
        done = f" ({event.num_done:,} more are done already)" if event.num_done else ""
        self._line(f"{event.stage}: {counted(event.todo, event.stage)}{size}{done}")
        if not event.todo:
            return
        self._stage = StageProgress(event, self._last_line)
        if self._is_terminal:
            self._bar = tqdm(
                total=event.todo,
                desc=event.stage,
                unit=unit_of(event.stage)[:-1],
                file=self._stream,
                leave=False,
                bar_format=_BAR,
            )

    def _advance(self, event: Advanced) -> None:
        if self._stage is None:
            return
        self._stage.take(event)
        if event.done == event.running == event.num_bytes == 0:
            # merges are timed from the first on, not from the summing before it
            self._stage.since = self._clock()
        if self._bar is not None:
            self._bar.update(event.done - self._bar.n)
            if event.last is not None:
                self._bar.set_postfix_str(_merge(event.last))
        elif self._is_terminal:
            return
        elif event.last is not None:
            self._print_merges_if_due(self._stage, event, event.last)
        else:
            self._print_stage_if_due(self._stage)

    def _end(self, event: StageEnded) -> None:
        failed = 0 if self._stage is None else self._stage.attempts_failed
        self._close()
        rate = event.num_bytes / 1e6 / max(event.seconds, 1e-9)
        text = f", {rate:,.1f} MB/s" if event.num_bytes else ""
        again = f", {failed:,} attempts failed and tried again" if failed else ""
        self._line(f"{event.stage}: done in {event.seconds:.1f} s{text}{again}")

    def _show(self, stage: StageProgress) -> None:
        """Write the bar anew, with what it says beside it."""
        assert self._bar is not None
        text = stage.rest(self._clock(), elapsed=False).removeprefix(", ")
        if stage.last is not None and stage.last.last is not None:
            text = f"{_merge(stage.last.last)}, {text}".removesuffix(", ")
        self._bar.set_postfix_str(text, refresh=True)

    def _print_stage_if_due(self, stage: StageProgress) -> None:
        now = self._clock()
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._line(stage.line(now))

    def _print_merges_if_due(self, stage: StageProgress, event: Advanced, last: Made) -> None:
        now, done, todo = self._clock(), event.done, event.todo
        since = now - self._last_line
        if is_line_due(done, todo, percent_before=self._percent, seconds=since):
            self._percent = percent(done, todo)
            self._last_line = now
            self._line(merge_line(done, todo, last, now - stage.since))

    def _close(self) -> None:
        with self._lock:
            self._stage = None
            if self._bar is not None:
                self._bar.close()
                self._bar = None

    def _line(self, text: str) -> None:
        text = printable(text, lines=True)
        if self._bar is not None:
            self._bar.clear()
        print(text, file=self._stream, flush=True)


def _merge(last: Made) -> str:
    _, token, count = last
    return f"{token_label(token)} {count:,} times"


@contextmanager
def merge_bar(stream: TextIO) -> Iterator[Callable[[MergeProgress], None]]:
    """Yield a function that shows progress on a stream; a bar is closed on any exit."""
    if not stream.isatty():
        yield _Lines(stream)
        return
    with tqdm(
        desc="learn",
        unit=" merges",
        file=stream,
        leave=False,
        mininterval=0,  # it is called about a hundred times in all
        miniters=1,
    ) as bar:
        yield lambda progress: _advance(bar, progress)


class _Lines:
    """Prints a line when one is due."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._percent = 0
        self._seconds = 0.0

    def __call__(self, progress: MergeProgress) -> None:
        done, total, seconds = progress.done, progress.total, progress.seconds
        since = seconds - self._seconds
        if is_line_due(done, total, percent_before=self._percent, seconds=since):
            self._percent, self._seconds = percent(done, total), seconds
            line = merge_line(done, total, _last(progress), seconds)
            print(line, file=self._stream, flush=True)


def _advance(bar: "tqdm[Any]", progress: MergeProgress) -> None:
    bar.total = progress.total
    last = _last(progress)
    if last is not None:
        bar.set_postfix_str(f"{token_label(last[1])} {last[2]:,} times", refresh=False)
    bar.update(progress.done - bar.n)


def _last(progress: MergeProgress) -> "Made | None":
    if progress.pair is None or progress.token is None or progress.count is None:
        return None
    return progress.pair, progress.token, progress.count
