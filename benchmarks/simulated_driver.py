"""The CPU time of the driver's own code: that of its thread minus that of the simulation.

The class is between the engine and a simulated cluster, with the interface of a cluster.
"""

import time
from collections.abc import Callable, Collection

from nanotok_ray.job.task import AttemptResult
from nanotok_ray.job.worker_pool import Call, ClusterResources, Reference
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

    def submit(self, call: Call) -> Reference:
        self._begin()
        reference = self._cluster.submit(call)
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

    def result(self, reference: Reference) -> AttemptResult:
        self._begin()
        outcome = self._cluster.result(reference)
        self._end()
        return outcome

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        self._begin()
        self._cluster.cancel(references, force=force)
        self._end()

    def _begin(self) -> None:
        self._since = time.thread_time()

    def _end(self) -> None:
        self.own_seconds += time.thread_time() - self._since
