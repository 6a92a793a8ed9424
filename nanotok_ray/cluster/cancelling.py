"""Cancelling calls on Ray: politely, or by killing their workers. Does not know what they do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import ray


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
