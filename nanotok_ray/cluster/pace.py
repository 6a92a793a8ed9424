"""How long calls take, and which of those in flight is overdue.

Ray does not tell when a call starts to run: calls are taken to start in the order in which they
were made, as many at a time as there are CPUs; those that want more than one CPU only when no other
waits, as a cluster may let them wait for so long. Pure: takes the time, knows neither Ray nor a
clock.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from nanotok_ray.cluster.attempts import Call
from nanotok_ray.cluster.patience import Patience

SLOWEST_RATE = float(1 << 20)
"""Bytes a second that a call is trusted to do while none has ended."""

KEPT_CALLS = 1000
"""As many of the last calls are looked at."""

PERCENTILE = 0.75


class Pace:
    """The calls in flight with the time since which they seem to run, and what calls took."""

    def __init__(self, patience: Patience) -> None:
        """Know of no call yet."""
        self._patience = patience
        self._running: dict[Call, float] = {}  # those that run longest first
        self._queued: OrderedDict[Call, None] = OrderedDict()
        self._large: OrderedDict[Call, None] = OrderedDict()
        self._wanted: dict[Call, int] = {}
        self._busy = 0
        self._seconds: deque[float] = deque(maxlen=KEPT_CALLS)
        self._slowness: deque[float] = deque(maxlen=KEPT_CALLS)

    def began(self, call: Call, now: float, *, cpus: int, wanted: int = 1) -> None:
        """A call was made that wants so many CPUs."""
        self._wanted[call] = wanted
        (self._large if wanted > 1 else self._queued)[call] = None
        self._advance(now, cpus)

    def left(self, call: Call, now: float, *, cpus: int, seconds: float | None = None) -> None:
        """A call is no longer in flight; `seconds` are what its slices took if it ended well."""
        wanted = self._wanted.pop(call)
        if self._running.pop(call, None) is not None:
            self._busy -= wanted
        self._queued.pop(call, None)
        self._large.pop(call, None)
        if seconds is not None:
            self._seconds.append(seconds)
            self._slowness.append(seconds / call.num_bytes)
        self._advance(now, cpus)

    def overdue(self, now: float) -> list[Call]:
        """Give calls in flight that deserve a second attempt, those that run longest first.

        Calls that have one now, or had as many as they may, are left out.
        """
        candidates = [
            (call, seconds)
            for call, seconds in self._longer_than(self._patience.overdue_floor, now)
            if call.may_have_second(self._patience)
        ]
        if not candidates:
            return []
        expected = _high(self._seconds), _high(self._slowness)
        return [call for call, seconds in candidates if seconds > self._allowed(call, *expected)]

    def past_deadline(self, now: float) -> list[tuple[Call, float]]:
        """Give calls in flight that are to be given up, with the seconds that they were given."""
        deadlines = [
            (call, seconds, self._patience.deadline_of(call.num_bytes))
            for call, seconds in self._longer_than(self._patience.deadline, now)
        ]
        return [(call, given) for call, seconds, given in deadlines if seconds > given]

    @property
    def num_running(self) -> int:
        """How many calls seem to run."""
        return len(self._running)

    @property
    def num_busy(self) -> int:
        """On how many CPUs calls seem to run."""
        return self._busy

    def _longer_than(self, least: float, now: float) -> Iterator[tuple[Call, float]]:
        """Give calls that seem to run for more than so many seconds, and for how long."""
        for call, since in self._running.items():
            if now - since <= least:  # and so are all that follow
                return
            yield call, now - since

    def _allowed(self, call: Call, seconds: float | None, slowness: float | None) -> float:
        """Give the seconds that a call may run before it is overdue."""
        if seconds is None or slowness is None:
            expected = call.num_bytes / SLOWEST_RATE
        else:
            expected = max(seconds, slowness * call.num_bytes)
        return max(self._patience.overdue_floor, self._patience.overdue_factor * expected)

    def _advance(self, now: float, cpus: int) -> None:
        while self._queued and self._busy < cpus:
            self._run(self._queued.popitem(last=False)[0], now)
        while self._large and not self._queued:
            call = next(iter(self._large))
            if self._busy and self._busy + self._wanted[call] > cpus:
                return
            del self._large[call]
            self._run(call, now)

    def _run(self, call: Call, now: float) -> None:
        self._running[call] = now
        self._busy += self._wanted[call]


def _high(values: Iterable[float]) -> float | None:
    """Give what three in four are not above, None of nothing."""
    ordered = sorted(values)
    return ordered[int(PERCENTILE * (len(ordered) - 1))] if ordered else None
