"""The writer of a journal, whose thread writes the rows in segments.

The first segment is written immediately. It is written again with the new rows every
`WRITE_SECONDS`, and after each row that is marked as `soon`, until its time is over and the next
segment starts. A reader is therefore a few seconds behind, and there are few files. `add` never
waits for storage and never fails because of it: rows are kept for the next attempt, up to a limit.
The writer removes the journals of all but the last `MAX_RUNS` runs.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from nanotok_ray.job.journal import JOURNAL_FOLDER, runs_in, segment_name
from nanotok_ray.storage import Folder

WRITE_SECONDS = 3.0
"""Interval in which new rows are written."""

SEGMENT_SECONDS = 30.0
"""Duration of a segment in the first two hours. Later it is the time so far divided by `SEGMENTS`,
so that a run of days has hundreds of segments and not tens of thousands."""

SEGMENTS = 240

SEGMENT_BYTES = 2_000_000
"""Pending rows of this size are written immediately, and a segment of this size ends."""

MAX_PENDING_BYTES = 64_000_000
"""Maximum bytes of rows that are kept while storage fails; further rows are dropped."""

CLOSE_SECONDS = 10.0
MAX_RUNS = 20
"""The number of journals that are kept, including the new one."""

_ROW = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


class Journal:
    """The journal of a run, to which rows are added."""

    def __init__(self, out: Folder, run: int, *, now: Callable[[], float] = time.monotonic) -> None:
        """Create the journal; `begin` starts the thread that writes.

        Args:
            out: The output folder.
            run: The number of the run, which is that of its first lease.
            now: Returns the time in seconds, which tests replace.
        """
        self.run = run
        self._out, self._now = out, now
        self._began = self._segment_began = now()
        self._rows: list[str] = []
        self._held = 0
        self._left_out = 0
        self._last_files: dict[str, bytes] = {}
        self._problem: str | None = None
        self._segment = 0
        self._num_written = 0
        """The number of rows of the segment that are written."""
        self._is_urgent = False
        self._is_closing = False
        self._is_written = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_until_closed, name="journal")
        self._thread.daemon = True

    def begin(self) -> None:
        """Start the thread, which writes the existing rows and those that are added later."""
        self._thread.start()

    def add(self, row: object, *, soon: bool = False) -> None:
        """Add a row; a row that is not valid as JSON is dropped.

        Args:
            row: The row, a JSON object.
            soon: Whether to write it immediately.
        """
        try:
            text = _ROW(row)
        except (TypeError, ValueError, RecursionError):
            self._left_out += 1
            return
        with self._changed:
            if self._held + len(text) > MAX_PENDING_BYTES:
                self._left_out += 1
                return
            self._rows.append(text)
            self._held += len(text) + 1
            self._is_urgent |= soon
            if self._is_due():
                self._changed.notify()

    def close(
        self, *, seconds: float = CLOSE_SECONDS, last_files: Mapping[str, bytes] | None = None
    ) -> str | None:
        """Write the remaining rows, then some files of the output; a second call does nothing.

        The call waits for storage for at most `CLOSE_SECONDS`.

        Returns:
            Why something was not written, or None.
        """
        with self._changed:
            if self._is_closing:
                return None
            self._last_files = dict(last_files or {})
            self._is_closing = True
            self._changed.notify()
        began = time.monotonic()
        if self._is_written.wait(seconds):  # the remaining time is for removing old journals
            self._thread.join(max(0.0, seconds - (time.monotonic() - began)))
        return self._problem_text()

    def _problem_text(self) -> str | None:
        where = self._out.join(JOURNAL_FOLDER)
        if not self._is_written.is_set():
            return f"the end of the journal in {where} was not written in time"
        if self._problem is not None:
            return f"the end of the journal in {where} was not written: {self._problem}"
        if self._left_out:
            return f"{self._left_out:,} events are missing from the journal in {where}"
        return None

    def _write_until_closed(self) -> None:
        self._remove_namesakes()
        self._write()
        is_tidy = self._remove_old_ones()
        while not self._is_closing:
            with self._changed:
                self._changed.wait_for(self._is_due, WRITE_SECONDS)
            self._write()
        self._write()
        for name, data in self._last_files.items():
            self._attempt(name, data)
        self._is_written.set()
        if not is_tidy:
            self._remove_old_ones()

    def _is_due(self) -> bool:
        is_wanted = self._is_urgent or self._held >= SEGMENT_BYTES
        return self._is_closing or (is_wanted and self._problem is None)

    def _write(self) -> None:
        """Write the segment if it has new rows, which are kept if writing fails."""
        with self._changed:
            number = len(self._rows)
            rows = self._rows[:number]
            self._is_urgent = False
        now = self._now()
        if number == self._num_written:
            return
        data = ("\n".join(rows) + "\n").encode()
        if not self._attempt(segment_name(self.run, self._segment), data):
            return
        self._num_written = number
        self._problem = None
        if self._is_over(len(data), now=now):
            self._segment += 1
            self._num_written, self._segment_began = 0, now
            with self._changed:
                del self._rows[:number]
                self._held -= len(data)

    def _is_over(self, num_bytes: int, *, now: float) -> bool:
        """Return whether the next rows belong to another segment."""
        seconds = max(SEGMENT_SECONDS, (now - self._began) / SEGMENTS)
        return num_bytes >= SEGMENT_BYTES or now - self._segment_began >= seconds

    def _attempt(self, name: str, data: bytes) -> bool:
        """Write a file, return whether that succeeded, and store the error."""
        try:
            self._out.write_bytes(name, data)
        except Exception as error:  # the job continues after any error
            self._problem = str(error).partition("\n")[0] or type(error).__name__
            return False
        return True

    def _remove_namesakes(self) -> None:
        """Remove segments of the same run number, which exist if leases were removed by hand."""
        with suppress(Exception):  # as in _attempt
            for segment in runs_in(self._out).get(self.run, []):
                self._out.remove(segment_name(self.run, segment))

    def _remove_old_ones(self) -> bool:
        """Remove old journals; return False if this journal ends and must be written first."""
        with suppress(Exception):  # as in _attempt
            runs = runs_in(self._out)
            older = [run for run in runs if run < self.run]
            for run in older[: max(0, len(older) - MAX_RUNS + 1)]:
                for segment in runs[run]:
                    if self._is_closing and not self._is_written.is_set():
                        return False
                    self._out.remove(segment_name(run, segment))
        return True
