"""What a submitted job prints, for people here: one line in a terminal, or one now and then."""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from nanotok_ray.units import printable

LINE_SECONDS = 10.0
"""At most one line in this time, where there is no terminal."""

MOST_NOTES = 20
"""So many notes of a job are shown; a job that loses many nodes has thousands."""


class SubmitLines:
    """Shows the newest line of a job's log; notes and what is told of the connection stay."""

    def __init__(self, stream: TextIO, *, now: Callable[[], float] = time.monotonic) -> None:
        """Print to `stream`, over and over on one line if it is a terminal."""
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._now = now
        self._last_line = -LINE_SECONDS
        self._newest: str | None = None
        self._is_open = False
        self._notes = 0

    def show(self, line: str) -> None:
        """Show a line of the job, or keep it until ten seconds have passed since the last."""
        if not line.strip() or line.startswith("{"):
            return
        if line.startswith("note: "):
            self._note(line.rstrip())
            return
        self._newest = line.rstrip()
        if self._is_terminal:
            self._rewrite(self._newest)
        elif self._now() - self._last_line >= LINE_SECONDS:
            self.flush()

    def _note(self, line: str) -> None:
        """Show what a job says once: of its inputs, of an attempt that failed."""
        self._notes += 1
        if self._notes <= MOST_NOTES:
            self.tell(line)
        if self._notes == MOST_NOTES:
            self.tell("nanotok: further notes are in the log and in the journal of the job alone")

    def flush(self) -> None:
        """Show the newest line if it was kept back."""
        if self._newest is not None and not self._is_terminal:
            self._print(self._newest)
            self._last_line = self._now()
        self._newest = None

    def tell(self, text: str) -> None:
        """Print a line of its own, which stays."""
        if self._is_open:
            print(file=self._stream)
        self._is_open = False
        self._print(text)

    def _print(self, text: str) -> None:
        print(printable(text, lines=True), file=self._stream, flush=True)

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\x1b[K{printable(text)[:width]}", end="", file=self._stream, flush=True)
        self._is_open = True
