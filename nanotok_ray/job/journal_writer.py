"""A journal as it grows: rows are taken at once, and written in segments by a thread of its own.

The first segment is written at once. It is written again, with the rows that came since, every
`WRITE_SECONDS` and with each row that is asked for soon, until its time is over and the next one
begins: so a reader is a few seconds behind, and there are few files. Storage that refuses or hangs
never fails the caller nor lets it wait: rows are kept for the next attempt, up to a limit. When a
journal begins, those of all but the last `MAX_RUNS` runs are removed.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nanotok_ray.job.journal import JOURNAL_FOLDER, runs_in, segment_name
from nanotok_ray.storage import Folder

WRITE_SECONDS = 3.0
"""So often rows that have come are written."""

SEGMENT_SECONDS = 30.0
"""Of a segment, in the first two hours; later a `SEGMENTS`th of the time so far, so that the
journal of a run of days is hundreds of segments and not ten thousands."""

SEGMENTS = 240

SEGMENT_BYTES = 2_000_000
"""So much is written at once, without waiting for the time, and ends a segment."""

MAX_PENDING_BYTES = 64_000_000
"""Bytes that are kept while storage refuses; what comes then is left out."""

CLOSE_SECONDS = 10.0
MAX_RUNS = 20
"""Journals that stay, the new one included."""

_ROW = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


class Journal:
    """The journal of one run, to which rows are added."""

    def __init__(self, out: Folder, run: int, *, now: Callable[[], float] = time.monotonic) -> None:
        """Create the journal; `begin` starts the thread that writes.

        Args:
            out: the output folder.
            run: number of the run, that of its first lease.
            now: a clock in seconds; tests have their own.
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
        """Rows of the segment that are written."""
        self._is_urgent = False
        self._is_closing = False
        self._is_written = threading.Event()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_until_closed, name="journal")
        self._thread.daemon = True

    def begin(self) -> None:
        """Write the rows that are there, and from now on those that come."""
        self._thread.start()

    def add(self, row: Mapping[str, Any], *, soon: bool = False) -> None:
        """Take a row; what holds something that is not JSON is left out.

        Args:
            row: the row.
            soon: whether it is to be written at once.
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
        """Write what is left, then some files of the output folder; once, a second time is nothing.

        Returns:
            Why not all was written, in words; None if it was.
        """
        with self._changed:
            if self._is_closing:
                return None
            self._last_files = dict(last_files or {})
            self._is_closing = True
            self._changed.notify()
        began = time.monotonic()
        if self._is_written.wait(seconds):  # what is left of the time is for old journals
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
        """Write the segment if rows have come; they are kept if that fails."""
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
        """Return whether the next rows go to another segment."""
        seconds = max(SEGMENT_SECONDS, (now - self._began) / SEGMENTS)
        return num_bytes >= SEGMENT_BYTES or now - self._segment_began >= seconds

    def _attempt(self, name: str, data: bytes) -> bool:
        """Return whether a file could be written, and keep why it could not."""
        try:
            self._out.write_whole(name, data)
        except Exception as error:  # whatever it is: the job continues
            self._problem = str(error).partition("\n")[0] or type(error).__name__
            return False
        return True

    def _remove_namesakes(self) -> None:
        """Remove segments of this number: it was used before, if leases were removed by hand."""
        with suppress(Exception):  # as in _attempt
            for segment in runs_in(self._out).get(self.run, []):
                self._out.remove(segment_name(self.run, segment))

    def _remove_old_ones(self) -> bool:
        """Remove journals of long ago; False: this one ends, and that is to be written first."""
        with suppress(Exception):  # as in _attempt
            found = runs_in(self._out)
            older = [run for run in found if run < self.run]
            for run in older[: max(0, len(older) - MAX_RUNS + 1)]:
                for segment in found[run]:
                    if self._is_closing and not self._is_written.is_set():
                        return False
                    self._out.remove(segment_name(run, segment))
        return True
