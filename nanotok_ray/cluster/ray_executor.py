"""Jobs on Ray: the executor, its calls as Ray tasks, and the cause of each of Ray's errors."""

import os
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nanotok_ray.cluster.learner_task import learn_in_task
from nanotok_ray.cluster.local_ray import check_local_ray, has_died
from nanotok_ray.cluster.metrics import Metrics
from nanotok_ray.cluster.node_call import (
    WHAT_TO_DO,
    Called,
    called,
    installed,
    node_function,
    pack,
)
from nanotok_ray.cluster.nodes import alive_nodes
from nanotok_ray.cluster.session import check_address, first_line, ray_session
from nanotok_ray.errors import NodeError, SharedFolderError
from nanotok_ray.job.counting import Training
from nanotok_ray.job.events import Event, OnEvent
from nanotok_ray.job.executor import Executor
from nanotok_ray.job.probes import Required, Shared
from nanotok_ray.job.reducing import WeightedCounts
from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.job.worker_pool import Call, ClusterResources, Reference, call_failure, run_attempt
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

if TYPE_CHECKING:
    from ray.exceptions import RayError


def failure_of(error: "RayError") -> Failure:
    """Return cause and text for an error with which a call ended."""
    from ray import exceptions  # noqa: PLC0415 - the session must have set its environment before

    if isinstance(error, exceptions.RayTaskError):
        return call_failure(error.cause, str(error))
    causes: tuple[tuple[tuple[type[RayError], ...], Cause], ...] = (
        ((exceptions.OutOfMemoryError,), Cause.MEMORY),
        ((exceptions.WorkerCrashedError,), Cause.WORKER),
        (
            (
                exceptions.NodeDiedError,
                exceptions.ObjectLostError,  # of a result that was stored on the node
                exceptions.GetTimeoutError,
                exceptions.RpcError,
                exceptions.RaySystemError,  # a worker that could not be started
            ),
            Cause.NODE,
        ),
    )
    cause = next((cause for kinds, cause in causes if isinstance(error, kinds)), Cause.CALL)
    return Failure(cause, f"{type(error).__name__}: {first_line(error)}")


GET_SECONDS = 60.0


class RayWorkerPool:
    """Runs calls as tasks of the current Ray session."""

    def __init__(self, probes: Sequence[Required]) -> None:
        """Store the probes that are checked at the beginning of each call."""
        import ray  # noqa: PLC0415 - see above

        self._probes = probes
        self._remote = ray.remote(max_retries=0)(node_function())
        self._installed = installed()

    def now(self) -> float:
        """Return the time of a monotonic clock of this machine."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        time.sleep(seconds)

    def resources(self) -> ClusterResources:
        """Ask Ray for its nodes.

        Raises:
            UnreachableError: The local Ray has died; other methods raise it too.
        """
        check_local_ray()
        return cluster_resources()

    def free_cpus(self) -> int:
        """Return the free CPUs of live nodes from Ray."""
        return free_cpus()

    def submit(self, call: Call) -> Reference:
        """Submit a task, which Ray itself does not retry."""
        options: dict[str, Any] = {"num_cpus": call.request.cpus}
        if call.request.memory is not None:
            options["memory"] = call.request.memory
        if call.spread:
            options["scheduling_strategy"] = "SPREAD"
        if call.avoid:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(call.avoid))})"}
        packed = pack(run_attempt, call.work, call.argument, self._probes)
        reference: Reference = self._remote.options(name=call.name, **options).remote(
            self._installed, packed
        )
        return reference

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Wait for tasks."""
        check_local_ray()
        return self._split(references, number, seconds)[0]

    def result(self, reference: Reference) -> AttemptResult:
        """Return the result of a task, or the failure that its death or its node means."""
        import ray  # noqa: PLC0415 - see above
        from ray.exceptions import RayError  # noqa: PLC0415 - see above

        try:
            answer = called(ray.get(reference, timeout=GET_SECONDS))
        except RayError as error:
            check_local_ray()
            return AttemptResult(failure=failure_of(error))
        return _on_node(answer)

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Cancel tasks that have not ended; cancelling one that has just ended can abort Ray 2.60.

        Without `force` a task is interrupted if possible; with it the worker is killed.
        """
        import ray  # noqa: PLC0415 - see above

        if not references or has_died():
            return
        for reference in self._split(references, len(references), 0)[1]:
            ray.cancel(reference, force=force)

    def _split(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> tuple[list[Any], list[Any]]:
        """Return the tasks that ended, and the others."""
        import ray  # noqa: PLC0415 - see above

        ended, others = ray.wait(
            list(references), num_returns=number, timeout=seconds, fetch_local=False
        )
        return list(ended), list(others)


def _on_node(answer: Called) -> AttemptResult:
    """Return the result of a task; a failure has the node."""
    error, node = answer.value, answer.node
    if isinstance(error, NodeError):
        text = str(error)
        if answer.lacks_package:
            text = f"{error}; {WHAT_TO_DO}"
        if not isinstance(error, SharedFolderError):
            error = NodeError(f"{node.name} cannot run this job: {text}")
        return AttemptResult(failure=Failure(Cause.UNFIT, text, error, node))
    result: AttemptResult = answer.value
    if result.failure is None:
        return result
    return replace(result, failure=replace(result.failure, node=node))


def cluster_resources() -> ClusterResources:
    """Return the current resources of the cluster, with at least one CPU."""
    alive = alive_nodes()
    working = [node for node in alive if node.cpus]
    memory, cpus = max(((node.memory, node.cpus) for node in working), default=(0, 1))
    return ClusterResources(
        cpus=max(1, sum(node.cpus for node in working)),
        node_cpus=cpus,
        node_memory=memory,
        nodes={node.node_id: node.cpus for node in working},
        num_nodes=len(alive),
    )


def free_cpus() -> int:
    """Return the idle CPUs of live nodes according to Ray's latest information."""
    import ray  # noqa: PLC0415 - see above

    return int(ray.available_resources().get("CPU", 0))


class RayExecutor(Executor):
    """Runs tasks on Ray."""

    name = "ray"

    def __init__(self, *, address: str | None = None) -> None:
        """Choose the cluster.

        Args:
            address: HOST:PORT of a cluster's head, "auto" or "local"; None: RAY_ADDRESS, otherwise
                a local Ray. An open session is always used.
        """
        self._address = address

    def check(self) -> None:
        """Check that the cluster can be joined; see `session.check_address`."""
        check_address(self._address)

    def starting(self) -> str:
        """Return whether a session starts Ray or joins a cluster."""
        address = self._address or os.environ.get("RAY_ADDRESS") or "local"
        return "starting Ray" if address == "local" else f"joining the Ray cluster at {address}"

    def session(
        self, *, cpus: int | None = None, shared: Collection[Shared] = ()
    ) -> AbstractContextManager[None]:
        """Return a Ray session; see `session.ray_session`."""
        return ray_session(address=self._address, cpus=cpus, shared=shared)

    def pool(self, probes: Sequence[Required]) -> RayWorkerPool:
        """Return the workers of the current Ray session."""
        return RayWorkerPool(probes)

    def learn(
        self, training: Training, summed: WeightedCounts, out: Folder, *, on_event: OnEvent
    ) -> Tokenizer:
        """Run the learner as a separate task; see `learner_task.learn_in_task`."""
        return learn_in_task(training, summed, out, on_event=on_event)

    def metrics(self) -> OnEvent:
        """Return a new listener that passes the metrics of one run to Ray.

        It raises an UnreachableError if the local Ray has died, which a stage without tasks would
        not notice.
        """
        metrics = Metrics()

        def listen(event: Event) -> None:
            check_local_ray()
            metrics(event)

        return listen
