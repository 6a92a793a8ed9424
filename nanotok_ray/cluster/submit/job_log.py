"""The log of a job as it grows, put together from streams that may break off."""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Self

LAST_LINES = 30
"""So many are kept, to say what a failed job said last."""

_MAX_WAITING = 1000
"""Lines that nobody took; older ones are dropped."""


class LogText:
    r"""Lines of one log; a stream that begins anew repeats it from its first character.

    >>> log = LogText()
    >>> log.begin()
    >>> log.add('count: 1 of 9\nco')
    >>> log.begin()
    >>> log.add('count: 1 of 9\ncount: 2 of 9\n{"status": "done"}\n')
    >>> log.take()
    ['count: 1 of 9', 'count: 2 of 9', '{"status": "done"}']
    >>> log.take(), log.summary
    ([], {'status': 'done'})
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._position = 0  # of the stream, in characters of the log
        self._seen = 0
        self._unended: list[str] = []
        self._waiting: deque[str] = deque(maxlen=_MAX_WAITING)
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._summary: dict[str, Any] | None = None

    def begin(self) -> None:
        """Begin again: the next text starts with the first character of the log."""
        with self._lock:
            self._position = 0

    def add(self, text: str) -> None:
        """Take more text of the stream."""
        with self._lock:
            new = text[max(0, self._seen - self._position) :]
            self._position += len(text)
            self._seen = max(self._seen, self._position)
            *lines, rest = new.split("\n")
            for line in lines:
                self._add_line("".join((*self._unended, line)))
                self._unended.clear()
            self._unended.append(rest)

    def _add_line(self, line: str) -> None:
        line = line.expandtabs()
        self._waiting.append(line)
        self._last.append(line)
        self._summary = _summary(line) or self._summary

    def take(self) -> list[str]:
        """Return the lines that came since the last call, and that ended."""
        with self._lock:
            lines = list(self._waiting)
            self._waiting.clear()
        return lines

    @property
    def last(self) -> list[str]:
        """The last lines, taken or not; also one that has not ended."""
        with self._lock:
            rest = "".join(self._unended)
            return [*self._last, *([rest] if rest else [])]

    @property
    def summary(self) -> dict[str, Any] | None:
        """The last line that is a JSON object with a status: what the job says of itself."""
        with self._lock:
            return _summary("".join(self._unended)) or self._summary


def _summary(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and isinstance(values.get("status"), str) else None


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a stream that broke off is taken up again; it begins with the first byte."""

SILENCE = 600.0
"""Seconds after which a stream that says nothing counts as broken off."""

LAST_SECONDS = 3.0
"""How long to wait for the last lines of a job that has ended, before its log is fetched whole."""

CLOSE_SECONDS = 5.0
"""How long to wait for the thread to end."""

Stream = Callable[[], AsyncIterator[str]]
"""Returns the text of the log from its first character on, until the job ends."""


class LogTail:
    """The log of one job; use as a context manager, so that its thread ends."""

    def __init__(self, stream: Stream, *, whole: Callable[[], str]) -> None:
        """Follow `stream`; `whole` returns all of a log at once, when the stream did not."""
        self.text = LogText()
        self._stream = stream
        self._whole = whole
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nanotok-log", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._task = self._loop.create_task(self._follow())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the stream."""
        self._close()

    def _close(self) -> None:
        if self._task is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # it ended just now, and closed its loop
                self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(timeout=CLOSE_SECONDS)

    def take(self) -> list[str]:
        """Return the lines that came since the last call."""
        return self.text.take()

    def finish(self) -> None:
        """Wait a moment for the last lines of a job that has ended, else fetch them."""
        self._has_ended.set()
        deadline = time.monotonic() + LAST_SECONDS
        while self.text.summary is None and self._thread.is_alive():
            if time.monotonic() >= deadline:
                break
            self._thread.join(timeout=0.05)
        if self.text.summary is None:
            with suppress(Exception):
                whole = self._whole()
                self._close()
                self.text.begin()
                self.text.add(whole)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            if self._task is not None:
                with suppress(asyncio.CancelledError):
                    self._loop.run_until_complete(self._task)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        while not self._has_ended.is_set():
            with suppress(Exception):
                await self._follow_once()
            await self._wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _follow_once(self) -> None:
        self.text.begin()
        stream: Any = self._stream()
        try:
            while True:
                self.text.add(await asyncio.wait_for(anext(stream), SILENCE))
        except StopAsyncIteration:
            return
        finally:
            await stream.aclose()

    async def _wait(self, seconds: float) -> None:
        """Wait, or not for long once the job has ended."""
        for _ in range(int(10 * seconds)):
            if self._has_ended.is_set():
                return
            await asyncio.sleep(0.1)
