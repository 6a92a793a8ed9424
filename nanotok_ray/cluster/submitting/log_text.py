"""The text of a job's log, put together from streams that may break off and begin anew.

Takes text as it comes; gives each line once. Does not know where the text comes from.
"""

import json
from collections import deque
from threading import Lock
from typing import Any

LAST_LINES = 30
"""So many are kept, to say what a failed job said last."""

_MOST_WAITING = 1000
"""Lines that nobody took; older ones are dropped."""


class LogText:
    r"""Lines of one log; a stream that begins anew gives it from its first character.

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
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._summary: dict[str, Any] | None = None

    def begin(self) -> None:
        """Say that the text to come begins with the first character of the log."""
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
        """Give the lines that came since the last call, and that ended."""
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
