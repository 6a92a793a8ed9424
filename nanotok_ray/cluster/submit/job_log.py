"""The log of a job as it grows: every line once, although each answer is the whole log."""

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from nanotok_ray.errors import UnreachableError

LAST_LINES = 30
"""The number of lines that are kept for the message about a failed job."""

MAX_NEW_LINES = 1000
"""The largest number of lines that one read returns; older ones are dropped."""


class JobLog:
    r"""The log of one job, from a function that returns all of it.

    >>> log = JobLog(iter(['count: 1 of 9\nco', 'count: 1 of 9\ncount: 2 of 9\n']).__next__)
    >>> log.read(), log.read()
    (['count: 1 of 9'], ['count: 2 of 9'])
    """

    def __init__(self, fetch: Callable[[], str]) -> None:
        """Take the function; it raises UnreachableError if there is no answer."""
        self._fetch = fetch
        self._num_seen = 0  # characters
        self._rest = ""  # a line without its end
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._summary: dict[str, Any] | None = None

    def read(self) -> list[str] | None:
        """Return the lines that ended since the last read; None if the log cannot be fetched."""
        try:
            text = self._fetch()
        except UnreachableError:
            return None
        *ended, self._rest = (self._rest + text[self._num_seen :]).split("\n")
        self._num_seen = max(self._num_seen, len(text))
        lines = [line.expandtabs() for line in ended]
        self._last.extend(lines)
        for line in lines:
            self._summary = _summary(line) or self._summary
        return lines[-MAX_NEW_LINES:]

    @property
    def last(self) -> list[str]:
        """The last lines; also one that has not ended."""
        return [*self._last, *([self._rest] if self._rest else [])]

    @property
    def summary(self) -> dict[str, Any] | None:
        """The last line that is a JSON object with a status: the job's own summary."""
        return _summary(self._rest) or self._summary


def _summary(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and isinstance(values.get("status"), str) else None
