"""The CPU time of the driver's own code: that of its thread minus that of the simulation.

The class is between the engine and a simulated cluster, with the interface of a cluster.
"""

import time
from collections.abc import Callable, Collection, Sequence

from nanotok_ray.job import AttemptResult, ClusterResources, Reference, Step
from simulated_cluster import SimulatedCluster


class TimedCalls:
    """A simulated cluster that measures its own CPU seconds."""

    def __init__(self, cluster: SimulatedCluster, on_wait: Callable[[], None]) -> None:
        self._cluster = cluster
        self._since = time.thread_time()
        self.own_seconds = 0.0
        self._on_wait = on_wait

    def now(self) -> float:
        return self._cluster.now()

    def sleep(self, seconds: float) -> None:
        self._begin()
        self._cluster.sleep(seconds)
        self._end()

    def resources(self) -> ClusterResources:
        return self._cluster.resources()

    def free_cpus(self) -> int:
        return self._cluster.free_cpus()

    def submit(
        self,
        name: str,
        steps: Sequence[Step],
        *,
        resources: ClusterResources,
        memory_level: int,
        spread: bool,
        avoid: Collection[str],
    ) -> Reference:
        self._begin()
        reference = self._cluster.submit(
            name,
            steps,
            resources=resources,
            memory_level=memory_level,
            spread=spread,
            avoid=avoid,
        )
        self._end()
        return reference

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        self._begin()
        self._on_wait()
        ready = self._cluster.wait(references, number, seconds)
        self._end()
        return ready

    def results(self, reference: Reference, number: int) -> Sequence[AttemptResult]:
        self._begin()
        outcomes = self._cluster.results(reference, number)
        self._end()
        return outcomes

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        self._begin()
        self._cluster.cancel(references, force=force)
        self._end()

    def _begin(self) -> None:
        self._since = time.thread_time()

    def _end(self) -> None:
        self.own_seconds += time.thread_time() - self._since
