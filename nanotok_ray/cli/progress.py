"""Progress for people: bars in a terminal or a notebook, regular lines in a log."""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from nanotok_ray.cli.display import Display
from nanotok_ray.cli.printing import shown
from nanotok_ray.job.events import (
    Activity,
    Advanced,
    AttemptFailed,
    Event,
    Note,
    Planned,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.job.forecast import Forecast, StageProgress
from nanotok_ray.units import format_bytes, format_estimate, printable, quantity

if TYPE_CHECKING:
    from tqdm import tqdm
    from typing_extensions import Self

TICK_SECONDS = 1.0
"""Seconds between updates. In a log, a shorter activity has no line."""

UNITS = {"reduce": "count files", "learn": "merges"}

FEW_MERGES = 50
"""Up to this number, every merge has its own line in a log."""

_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
_ACTIVITY_BAR = "{desc} [{elapsed}]"
_BAR_COLUMNS = 10
_MAX_TOKEN_CHARS = 40
"""Longer tokens are truncated to this number of characters, followed by their length."""


def unit_of(stage: str) -> str:
    """Return the unit of the progress of a stage.

    >>> unit_of("learn"), unit_of("tokenize")
    ('merges', 'slices')
    """
    return UNITS.get(stage, "slices")


def counted(number: int, stage: str) -> str:
    """Return a number with the unit of a stage.

    >>> counted(1, "tokenize"), counted(2000, "learn")
    ('1 slice', '2,000 merges')
    """
    return quantity(number, unit_of(stage).removesuffix("s"))


def token_label(token: bytes) -> str:
    r"""Return a token as a Python literal on one line: a str if it is UTF-8, otherwise bytes.

    >>> token_label(b"\n"), token_label(b"\xff"), token_label(b"=" * 1000)
    ("'\\n'", "b'\\xff'", "'========================================'... (1,000 bytes)")
    """
    try:
        start = repr(token.decode()[:_MAX_TOKEN_CHARS])
    except UnicodeDecodeError:
        start = repr(token[:_MAX_TOKEN_CHARS])
    return f"{start}... ({len(token):,} bytes)" if len(token) > _MAX_TOKEN_CHARS else start


def times_left(stage: StageProgress, forecast: Forecast, now: float) -> list[str]:
    """Return estimates of the remaining time of a stage and of the job, as far as known."""
    left = stage.left(now)
    if left is None or stage.done >= stage.started.todo:
        return []
    job = forecast.left(left, stage.rate(now))
    return [format_estimate(left), *([] if job is None else [job.text()])]


def details(stage: StageProgress, now: float) -> list[str]:
    """Return failures, the rate, and what is running, the most important first."""
    last, parts = stage.last, []
    if last is None:
        return []
    if last.failed:
        parts.append(f"{last.failed:,} failed")
    if stage.attempts_failed:
        parts.append(f"{quantity(stage.attempts_failed, 'attempt')} failed and tried again")
    rate = stage.rate(now)
    if rate is not None and stage.started.stage not in UNITS:
        parts.append(f"{rate / 1e6:,.1f} MB/s")
    if stage.started.stage == "learn" and last.done and now > stage.since:
        parts.append(f"{last.done / (now - stage.since):,.0f} merges/s")
    if last.last is not None:
        _, token, count = last.last
        parts.append(f"{token_label(token)} {quantity(count, 'time')}")
    if last.running and last.done < last.todo:
        parts.append(f"{quantity(last.running, 'task')} running")
    return parts


def stage_line(stage: StageProgress, forecast: Forecast, now: float) -> str:
    """Return the line of a stage in a log."""
    name, todo = stage.started.stage, stage.started.todo
    if stage.last is not None and stage.last.last is not None and todo <= FEW_MERGES:
        pair, token, count = stage.last.last
        parts = [f"{token_label(token)} {pair} {quantity(count, 'time')}"]
    else:
        parts = _times_and_details(stage, forecast, now)
    head = f"{_title(name, forecast)}: {stage.done:,} of {counted(todo, name)}"
    return ", ".join([f"{head} ({100 * stage.done // max(todo, 1)}%)", *parts])


def _times_and_details(stage: StageProgress, forecast: Forecast, now: float) -> list[str]:
    times = times_left(stage, forecast, now)
    job = f" (whole job: {times[1]})" if len(times) > 1 else ""
    elapsed = format_estimate(now - stage.since).removeprefix("about ")
    left = f"{times[0]} left{job}" if times else f"{elapsed} so far"
    return [left, *details(stage, now)]


def _title(stage: str, forecast: Forecast) -> str:
    return f"{stage} ({forecast.position})" if forecast.position else stage


class Progress:
    """Prints the events of a job; a context manager, which closes bars on any exit.

    A terminal and a notebook with ipywidgets show bars. Other streams get a line every ten seconds
    and at the end of each stage.

    ```python
    with nanotok_ray.Progress() as progress:
        summary = nanotok_ray.prepare(recipe, on_event=progress)
    ```
    """

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Print to a stream.

        Args:
            stream: the stream; None: stderr.
            clock: returns the time in seconds.
        """
        self._clock = clock
        self._display = Display(stream or sys.stderr, clock=clock)
        self._stage: StageProgress | None = None
        self._activity: Activity | None = None
        self._forecast = Forecast()
        self._since = 0.0
        """When the activity began."""
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._ticker = threading.Thread(target=self._tick_on, name="progress", daemon=True)

    def __enter__(self) -> "Self":
        """Start the thread that updates the progress between events."""
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the open bar."""
        self._stop.set()
        self._close()
        self._ticker.join(TICK_SECONDS)

    def __call__(self, event: Event) -> None:
        """Print an event, unless a line was printed less than ten seconds ago."""
        with self._lock:
            match event:
                case Note():
                    self._display.print(f"note: {event.text}")
                case Activity():
                    self._begin(event)
                case Planned():
                    self._forecast = Forecast(list(event.stages))
                case StageStarted():
                    self._start(event)
                case Advanced() | SliceEnded() | AttemptFailed():
                    if self._stage is not None:
                        self._take(self._stage, event)
                case StageEnded():
                    self._end(event)

    def tick(self) -> None:
        """Print the current state again if the last line is old."""
        with self._lock:
            display = self._display
            if display.bar is not None:
                if self._stage is not None:
                    self._describe(display.bar, self._stage)
                display.bar.refresh()
            elif display.has_bars:
                return
            elif self._stage is not None and display.is_due:
                display.print(stage_line(self._stage, self._forecast, self._clock()))
            elif self._activity is not None:
                self._print_activity(self._activity)

    def _tick_on(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self.tick()
            except (OSError, ValueError):  # the stream is closed; the job itself will fail
                return

    def _begin(self, event: Activity) -> None:
        is_same = self._activity is not None and self._activity.text == event.text
        if not is_same:
            self._close()
            self._since = self._clock()
        self._activity = event
        display, text = self._display, _activity_text(event)
        if not display.has_bars:
            if display.printed_at is None and not event.done:
                display.print(printable(event.text))
            return
        bar = display.bar or display.open(_ACTIVITY_BAR, text, total=event.todo or None)
        bar.set_description_str(shown(text), refresh=False)
        bar.update(event.done - bar.n)

    def _print_activity(self, event: Activity) -> None:
        display, text = self._display, _activity_text(event)
        if display.printed_at is not None and display.printed_at < self._since:
            display.print(text)
        elif display.is_due:
            elapsed = format_estimate(self._clock() - self._since).removeprefix("about ")
            display.print(f"{text}, {elapsed} so far")

    def _start(self, event: StageStarted) -> None:
        self._close()
        self._forecast.begin(event.stage, todo=event.todo, num_bytes=event.num_bytes)
        title = _title(event.stage, self._forecast)
        size = f", about {format_bytes(event.num_bytes)}" if event.num_bytes else ""
        done = f" ({event.num_done:,} more are done already)" if event.num_done else ""
        if not self._display.has_bars or not event.todo or event.num_done:
            self._display.print(f"{title}: {counted(event.todo, event.stage)}{size}{done}")
        if not event.todo:
            return
        self._stage = StageProgress(event, self._clock())
        if self._display.has_bars:
            self._display.open(_BAR, title, total=event.todo)

    def _take(self, stage: StageProgress, event: Advanced | SliceEnded | AttemptFailed) -> None:
        stage.take(event)
        if not isinstance(event, Advanced):
            return
        if event.done == event.running == event.num_bytes == 0:
            # merges are timed from the first one, without the preceding sum of counts
            stage.since = self._clock()
        bar = self._display.bar
        if bar is not None:
            self._describe(bar, stage)
            bar.update(event.done - bar.n)
            if event.done == event.todo:
                bar.refresh()
        elif self._display.is_due or (event.last is not None and event.todo <= FEW_MERGES):
            self._display.print(stage_line(stage, self._forecast, self._clock()))

    def _end(self, event: StageEnded) -> None:
        failed = 0 if self._stage is None else self._stage.attempts_failed
        made = ""
        if self._stage is not None and event.stage == "learn":
            made = f", {self._stage.done:,} of {counted(self._stage.started.todo, event.stage)}"
        self._close()
        self._forecast.end(event)
        rate = event.num_bytes / 1e6 / max(event.seconds, 1e-9)
        text = f", {rate:,.1f} MB/s" if event.num_bytes and event.stage not in UNITS else ""
        again = f", {quantity(failed, 'attempt')} failed and tried again" if failed else ""
        title = _title(event.stage, self._forecast)
        self._display.print(f"{title}: done in {event.seconds:.1f} s{made}{text}{again}")

    def _describe(self, bar: "tqdm[Any]", stage: StageProgress) -> None:
        """Set the text beside the bar to as much as fits."""
        now, digits = self._clock(), 2 * len(str(stage.started.todo))
        room = self._display.columns - len(bar.desc) - digits - _BAR_COLUMNS - 22
        times = [time.removeprefix("about ") for time in times_left(stage, self._forecast, now)]
        left = [text.format(time) for text, time in zip(("{} left", "job {}"), times, strict=False)]
        text = ""
        for part in [*left, *details(stage, now)]:
            longer = f"{text}, {part}".removeprefix(", ")
            if len(longer) > room:
                break
            text = longer
        bar.set_postfix_str(shown(text), refresh=False)

    def _close(self) -> None:
        with self._lock:
            self._stage = self._activity = None
            self._display.close()


def _activity_text(event: Activity) -> str:
    text = printable(event.text)  # it can contain names of files
    return f"{text}: {event.done:,} of {event.todo:,}" if event.todo else text
