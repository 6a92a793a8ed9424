"""How long calls take, and which of those in flight is overdue.

Ray does not tell when a call starts to run: calls are taken to start in the order in which they
were made, as many at a time as there are CPUs. Pure: takes the time, knows neither Ray nor a clock.
"""

from collections import deque
from collections.abc import Iterable

from nanotok_ray.cluster.attempts import Call
from nanotok_ray.cluster.patience import Patience

SLOWEST_RATE = float(1 << 20)
"""Bytes a second that a call is trusted to do while none has ended."""

KEPT_CALLS = 1000
"""As many of the last calls are looked at."""

PERCENTILE = 0.95


class Pace:
    """The calls in flight with the time since which they seem to run, and what calls took."""

    def __init__(self, patience: Patience) -> None:
        """Know of no call yet."""
        self._patience = patience
        self._running: dict[Call, float] = {}
        self._queued: dict[Call, None] = {}
        self._seconds: deque[float] = deque(maxlen=KEPT_CALLS)
        self._slowness: deque[float] = deque(maxlen=KEPT_CALLS)

    def began(self, call: Call, now: float, *, cpus: int) -> None:
        """A call was made."""
        self._queued[call] = None
        self._advance(now, cpus)

    def left(self, call: Call, now: float, *, cpus: int, seconds: float | None = None) -> None:
        """A call is no longer in flight; `seconds` are what its slices took if it ended well."""
        self._running.pop(call, None)
        self._queued.pop(call, None)
        if seconds is not None:
            self._seconds.append(seconds)
            self._slowness.append(seconds / call.num_bytes)
        self._advance(now, cpus)

    def overdue(self, now: float) -> list[Call]:
        """Give calls in flight that deserve a second attempt, those that run longest first.

        Calls that had one, and second attempts themselves, are left out.
        """
        expected = _high(self._seconds), _high(self._slowness)
        return [
            call
            for call, since in self._running.items()
            if call.twin is None and now - since > self._allowed(call, *expected)
        ]

    def past_deadline(self, now: float) -> list[tuple[Call, float]]:
        """Give calls in flight that are to be given up, with the seconds that they were given."""
        deadlines = [
            (call, since, self._patience.deadline_of(call.num_bytes))
            for call, since in self._running.items()
        ]
        return [(call, given) for call, since, given in deadlines if now - since > given]

    @property
    def num_running(self) -> int:
        """How many calls seem to run."""
        return len(self._running)

    def _allowed(self, call: Call, seconds: float | None, slowness: float | None) -> float:
        """Give the seconds that a call may run before it is overdue."""
        if seconds is None or slowness is None:
            expected = call.num_bytes / SLOWEST_RATE
        else:
            expected = max(seconds, slowness * call.num_bytes)
        return max(self._patience.overdue_floor, self._patience.overdue_factor * expected)

    def _advance(self, now: float, cpus: int) -> None:
        while self._queued and len(self._running) < cpus:
            call = next(iter(self._queued))
            del self._queued[call]
            self._running[call] = now


def _high(values: Iterable[float]) -> float | None:
    """Give the 95th percentile, None of nothing."""
    ordered = sorted(values)
    return ordered[int(PERCENTILE * (len(ordered) - 1))] if ordered else None
