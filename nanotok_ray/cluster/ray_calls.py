"""Calls on Ray, as the engine wants them (`calls.py`); the only place where it meets Ray.

Ray is imported by the functions, not the module: the session must have set its environment before.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

from nanotok_ray.cluster.deaths import failure_of
from nanotok_ray.job.calls import Reference, Room, Step, run_call
from nanotok_ray.job.probes import Probe
from nanotok_ray.job.task import Outcome

GET_SECONDS = 60.0


class RayCalls:
    """Calls as tasks of the Ray session that is there."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        """Have each call look at these probes first."""
        import ray  # noqa: PLC0415 - see above

        self._probes = probes
        self._remote = ray.remote(max_retries=0)(run_call)

    def now(self) -> float:
        """Give the time of this machine's clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def room(self) -> Room:
        """Ask Ray for its nodes."""
        return look()

    def free_cpus(self) -> int:
        """Ask Ray for what is free; none of a node that is dead."""
        return free_cpus()

    def start(
        self, name: str, steps: Sequence[Step], *, room: Room, memory_level: int, spread: bool
    ) -> Reference:
        """Submit a task, which Ray does not try again by itself."""
        options = room.request(memory_level)
        if spread:
            options["scheduling_strategy"] = "SPREAD"
        reference: Reference = self._remote.options(name=name, **options).remote(
            steps, self._probes
        )
        return reference

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Wait for tasks."""
        return self._split(references, number, seconds)[0]

    def outcomes(self, reference: Reference, number: int) -> Sequence[Outcome]:
        """Get the result of a task, or the failure that its death stands for.

        Raises:
            SharedFolderError: the worker's node does not see a folder of the job.
        """
        import ray  # noqa: PLC0415 - see above
        from ray.exceptions import RayError  # noqa: PLC0415 - see above

        try:
            outcomes: Sequence[Outcome] = ray.get(reference, timeout=GET_SECONDS)
        except RayError as error:
            return [Outcome(failure=failure_of(error))] * number
        return outcomes

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Cancel tasks that have not ended: to cancel one that has just ended may abort Ray 2.60.

        Without force a call is interrupted, if it lets itself be; with it its worker is killed.
        """
        import ray  # noqa: PLC0415 - see above

        if not references:
            return
        for reference in self._split(references, len(references), 0)[1]:
            ray.cancel(reference, force=force)

    def _split(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> tuple[list[Any], list[Any]]:
        """Give tasks that ended, and the others."""
        import ray  # noqa: PLC0415 - see above

        ended, others = ray.wait(
            list(references), num_returns=number, timeout=seconds, fetch_local=False
        )
        return list(ended), list(others)


def look() -> Room:
    """Give the room of the cluster as it is now, at least one CPU."""
    import ray  # noqa: PLC0415 - the session must have set its environment before

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    sizes = [(int(own.get("memory", 0)), int(own.get("CPU", 0))) for own in nodes]
    memory, cpus = max((size for size in sizes if size[1] >= 1), default=(0, 1))
    total = sum(cpus for _, cpus in sizes)
    return Room(cpus=max(1, total), node_cpus=cpus, node_memory=memory)


def free_cpus() -> int:
    """Give the CPUs that nothing runs on, as Ray knew a moment ago; none of a node that is dead."""
    import ray  # noqa: PLC0415 - see above

    return int(ray.available_resources().get("CPU", 0))
