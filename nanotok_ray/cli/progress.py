"""A job's events for people: a bar in a terminal, a plain line now and then in a log.

A thread looks at the time, so that a job of which nothing ends for minutes still says that it
lives.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO

from tqdm import tqdm

from nanotok_ray.cli.merge_line import is_line_due, merge_line, percent, shown_token
from nanotok_ray.cli.stage_progress import UNITS, StageProgress, counted, unit_of
from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    Event,
    Note,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.tokenizer.merges import Made
from nanotok_ray.units import printable

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

    def __enter__(self) -> Self:
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
        """Look at the time, and say again how far the stage is if that was long ago."""
        with self._lock:
            if self._stage is None:
                return
            if self._bar is not None:
                self._show(self._stage)
            elif not self._is_terminal:
                self._tell_now_and_then(self._stage)

    def _tick_on(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                self.tick()
            except (OSError, ValueError):  # nobody reads any more: the job itself will be told
                return

    def _start(self, event: StageStarted) -> None:
        self._close()
        self._last_line = self._clock()
        self._percent = 0
        size = f", about {event.num_bytes / 1e6:,.1f} MB" if event.num_bytes else ""
        kept = f" ({event.kept:,} more are done already)" if event.kept else ""
        self._line(f"{event.stage}: {counted(event.todo, event.stage)}{size}{kept}")
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
            self._tell_merges(self._stage, event, event.last)
        else:
            self._tell_now_and_then(self._stage)

    def _end(self, event: StageEnded) -> None:
        failed = 0 if self._stage is None else self._stage.attempts_failed
        self._close()
        rate = event.num_bytes / 1e6 / max(event.seconds, 1e-9)
        told = f", {rate:,.1f} MB/s" if event.num_bytes else ""
        again = f", {failed:,} attempts failed and tried again" if failed else ""
        self._line(f"{event.stage}: done in {event.seconds:.1f} s{told}{again}")

    def _show(self, stage: StageProgress) -> None:
        """Write the bar anew, with what it says beside it."""
        assert self._bar is not None
        told = stage.told(self._clock(), elapsed=False).removeprefix(", ")
        if stage.last is not None and stage.last.last is not None:
            told = f"{_merge(stage.last.last)}, {told}".removesuffix(", ")
        self._bar.set_postfix_str(told, refresh=True)

    def _tell_now_and_then(self, stage: StageProgress) -> None:
        now = self._clock()
        if now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._line(stage.line(now))

    def _tell_merges(self, stage: StageProgress, event: Advanced, last: Made) -> None:
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
    return f"{shown_token(token)} {count:,} times"
