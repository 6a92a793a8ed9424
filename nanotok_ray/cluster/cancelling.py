"""Cancelling calls on Ray: politely, or by killing their workers. Does not know what they do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ray

END_SECONDS = 2.0
"""How long a call that was just interrupted may take to end when its stage is over."""


def cancel(references: "Sequence[ray.ObjectRef[Any]]", *, force: bool = False) -> None:
    """Cancel calls that have not ended: to cancel one that has just ended may abort Ray 2.60.

    Without force a call is interrupted, if it lets itself be; with it its worker is killed.
    """
    import ray  # noqa: PLC0415 - the session must have set its environment before

    if not references:
        return
    waiting = list(references)
    _, running = ray.wait(waiting, num_returns=len(waiting), timeout=0, fetch_local=False)
    for reference in running:
        ray.cancel(reference, force=force)


class Overtaken:
    """Calls that nobody waits for any more: interrupted, and killed if that does not end them.

    One that hangs in native code, or on a disk that does not answer, would keep its CPU for ever.
    """

    def __init__(self, grace: float) -> None:
        """Let them have so many seconds to end by themselves."""
        self._grace = grace
        self._since: dict[ray.ObjectRef[Any], float] = {}

    def add(self, reference: "ray.ObjectRef[Any]", now: float) -> None:
        """Interrupt a call."""
        self._since[reference] = now
        cancel([reference])

    def kill_late(self, now: float) -> None:
        """Kill those whose time is up."""
        late = [each for each, since in self._since.items() if now - since > self._grace]
        for reference in late:
            del self._since[reference]
        cancel(late, force=True)

    def end(self) -> None:
        """Kill those that have not ended after a moment.

        Ray 2.60 loses an order to kill a call that comes right after the one to interrupt it.
        """
        import ray  # noqa: PLC0415 - see above

        waiting = list(self._since)
        if waiting:
            ray.wait(waiting, num_returns=len(waiting), timeout=END_SECONDS, fetch_local=False)
            cancel(waiting, force=True)
