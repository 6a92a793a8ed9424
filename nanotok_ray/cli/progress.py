"""A job's events for people: a bar in a terminal, a plain line now and then in a log."""

import time
from types import TracebackType
from typing import Any, Self, TextIO

from tqdm import tqdm

from nanotok_ray.cli.merge_line import merge_line, percent, shown_token
from nanotok_ray.cluster.events import Advanced, Event, Note, StageEnded, StageStarted
from nanotok_ray.merges import Made
from nanotok_ray.printable import printable

LINE_SECONDS = 10.0
"""At most one line per stage in this time, where there is no terminal; learning: one a percent."""

UNITS = {"reduce": "count files", "learn": "merges", "span table": "spans"}


class Progress:
    """Prints events to a stream; use as a context manager, so that a bar is closed on any exit."""

    def __init__(self, stream: TextIO) -> None:
        """Print to `stream`, with bars if it is a terminal."""
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._bar: tqdm[Any] | None = None
        self._last_line = 0.0
        self._started = 0.0
        self._percent = 0

    def __enter__(self) -> Self:
        """Print nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the bar that is open."""
        self._close()

    def __call__(self, event: Event) -> None:
        """Print one event, or leave it out if a line came a moment ago."""
        match event:
            case Note():
                self._line(f"note: {event.text}")
            case StageStarted():
                self._start(event)
            case Advanced():
                self._advance(event)
            case StageEnded():
                self._close()
                rate = event.num_bytes / 1e6 / max(event.seconds, 1e-9)
                told = f", {rate:,.1f} MB/s" if event.num_bytes else ""
                self._line(f"{event.stage}: done in {event.seconds:.1f} s{told}")

    def _start(self, event: StageStarted) -> None:
        self._close()
        self._started = self._last_line = time.monotonic()
        self._percent = 0
        unit = UNITS.get(event.stage, "slices")
        size = f", about {event.num_bytes / 1e6:,.1f} MB" if event.num_bytes else ""
        kept = f" ({event.kept:,} more are done already)" if event.kept else ""
        self._line(f"{event.stage}: {event.todo:,} {unit}{size}{kept}")
        if self._is_terminal and event.todo:
            self._bar = tqdm(
                total=event.todo, desc=event.stage, unit=unit[:-1], file=self._stream, leave=False
            )

    def _advance(self, event: Advanced) -> None:
        if event.done == 0:  # merges are timed from the first on, not from the summing before it
            self._started = time.monotonic()
        if self._bar is not None:
            self._bar.update(event.done - self._bar.n)
            if event.failed:
                self._bar.set_postfix(failed=event.failed)
            if event.last is not None:
                _, token, count = event.last
                self._bar.set_postfix_str(f"{shown_token(token)} {count:,} times")
        elif self._is_terminal:
            return
        elif event.last is not None:
            self._tell_merges(event, event.last)
        elif (now := time.monotonic()) - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._line(self._told(event, now - self._started))

    def _tell_merges(self, event: Advanced, last: Made) -> None:
        """Print a line once a percent, however often the learner tells."""
        now_percent = percent(event.done, event.todo)
        if now_percent > self._percent:
            self._percent = now_percent
            seconds = time.monotonic() - self._started
            self._line(merge_line(event.done, event.todo, last, seconds))

    @staticmethod
    def _told(event: Advanced, seconds: float) -> str:
        unit = UNITS.get(event.stage, "slices")
        left = seconds * (event.todo - event.done) / max(event.done, 1)
        rate = f", {event.num_bytes / 1e6 / seconds:,.1f} MB/s" if event.num_bytes else ""
        failed = f", {event.failed:,} failed" if event.failed else ""
        done = f"{event.stage}: {event.done:,} of {event.todo:,} {unit}"
        return f"{done}{rate}, about {left:.0f} s left{failed}"

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _line(self, text: str) -> None:
        print(printable(text, lines=True), file=self._stream, flush=True)
