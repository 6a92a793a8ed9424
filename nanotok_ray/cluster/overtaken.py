"""Calls that nobody waits for any more: interrupted, and killed if that does not end them.

Takes the time; does not know what the calls do, nor why nobody waits.
"""

from nanotok_ray.cluster.calls import Calls, Reference

END_SECONDS = 2.0
"""How long a call that was just interrupted may take to end when its stage is over."""


class Overtaken:
    """Calls whose twins were first.

    One that hangs in native code, or on a disk that does not answer, would keep its CPU for ever.
    """

    def __init__(self, calls: Calls, *, grace: float) -> None:
        """Let them have so many seconds to end by themselves."""
        self._calls = calls
        self._grace = grace
        self._since: dict[Reference, float] = {}

    def add(self, reference: Reference, now: float) -> None:
        """Interrupt a call."""
        self._since[reference] = now
        self._calls.cancel([reference])

    def kill_late(self, now: float) -> None:
        """Kill those whose time is up."""
        late = [each for each, since in self._since.items() if now - since > self._grace]
        for reference in late:
            del self._since[reference]
        self._calls.cancel(late, force=True)

    def end(self) -> None:
        """Kill those that have not ended after a moment.

        Ray 2.60 loses an order to kill a call that comes right after the one to interrupt it.
        """
        waiting = list(self._since)
        if waiting:
            self._calls.wait(waiting, len(waiting), END_SECONDS)
            self._calls.cancel(waiting, force=True)
