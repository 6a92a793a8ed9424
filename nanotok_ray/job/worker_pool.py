"""The interface of a cluster for batches of tasks, and the function that runs a batch."""

import os
import socket
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nanotok_ray.errors import (
    OF_THE_MACHINE,
    NanotokError,
    SharedFolderError,
    TransientIOError,
    os_error_message,
)
from nanotok_ray.job.probes import Probe, see
from nanotok_ray.job.task import AttemptResult, Cause, Failure


@dataclass(frozen=True, slots=True)
class ClusterResources:
    """CPUs of all nodes; CPUs and memory (bytes) of the node with the most memory."""

    cpus: int
    node_cpus: int
    node_memory: int

    def request(self, level: int) -> dict[str, Any]:
        """Return what a batch asks Ray for, at a memory level (`TaskBatch.memory_level`).

        CPUs too: calls of level 0 ask for no memory, and only CPUs keep them off a node.

        >>> ClusterResources(cpus=64, node_cpus=8, node_memory=16_000).request(1)
        {'num_cpus': 2, 'memory': 4000}
        >>> ClusterResources(cpus=64, node_cpus=8, node_memory=16_000).request(9)
        {'num_cpus': 8, 'memory': 16000}
        """
        cpus = self.cpus_at(level)
        if level == 0:
            return {"num_cpus": cpus}
        return {"num_cpus": cpus, "memory": self.node_memory * cpus // self.node_cpus}

    def cpus_at(self, level: int) -> int:
        """Return how many CPUs a batch of a memory level asks for."""
        return min(1 << level, self.node_cpus)


Step = tuple[Callable[[Any], Any], Any]
"""What a slice is to a worker: a function and its argument."""

TRACEBACK_LIMIT = -8


def run_batch(steps: Sequence[Step], probes: Sequence[Probe]) -> list[AttemptResult]:
    """Run slices in turn and return their outcomes.

    Raises:
        SharedFolderError: this node does not see a folder that the job writes to; nothing was run.
        TransientIOError: whether it does is unknown for now.
    """
    for probe in probes:
        see(probe)
    worker = f"{socket.gethostname()}/{os.getpid()}"
    return [_run(work, argument, worker) for work, argument in steps]


def _run(work: Callable[[Any], Any], argument: object, worker: str) -> AttemptResult:
    began = time.time()
    return replace(_outcome(work, argument), began=began, worker=worker)


def _outcome(work: Callable[[Any], Any], argument: object) -> AttemptResult:
    start = time.perf_counter()
    try:
        result = work(argument)
    except TransientIOError as error:
        return _failed(Cause.STORAGE, str(error), start)
    except NanotokError as error:
        return _failed(Cause.ERROR, str(error), start, raised=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in native code is no Exception
        if isinstance(error, OSError) and error.filename and error.errno in OF_THE_MACHINE:
            return _failed(Cause.ERROR, os_error_message(error), start)
        text = "".join(traceback.format_exception(error, limit=TRACEBACK_LIMIT)).rstrip()
        return _failed(Cause.ERROR, text, start)
    return AttemptResult(result=result, seconds=time.perf_counter() - start)


def _failed(
    cause: Cause, text: str, start: float, *, raised: NanotokError | None = None
) -> AttemptResult:
    return AttemptResult(seconds=time.perf_counter() - start, failure=Failure(cause, text, raised))


def batch_failure(error: Exception, text: str) -> Failure:
    """Return the failure of a batch in which an error was raised outside of its steps.

    Args:
        error: The error.
        text: What to report of an error that is none of ours.

    Raises:
        SharedFolderError: The worker does not see a folder of the job.
    """
    if isinstance(error, SharedFolderError):
        raise error
    if isinstance(error, TransientIOError):
        return Failure(Cause.STORAGE, str(error))
    return Failure(Cause.CALL, str(error) if isinstance(error, NanotokError) else text)


Reference = Hashable
"""A batch that was started."""


class WorkerPool(Protocol):
    """Calls on a cluster, and its clock. Times are in seconds."""

    def now(self) -> float:
        """Return the time; only differences count."""

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""

    def resources(self) -> ClusterResources:
        """Return what the cluster has now."""

    def free_cpus(self) -> int:
        """Return the CPUs that nothing runs on, as known a moment ago."""

    def submit(
        self,
        name: str,
        steps: Sequence[Step],
        *,
        resources: ClusterResources,
        memory_level: int,
        spread: bool,
    ) -> Reference:
        """Start a batch of steps, which a worker runs in turn.

        Args:
            name: what a person sees.
            steps: functions and their arguments.
            resources: what the memory level is measured by.
            memory_level: as in `attempts.TaskBatch`.
            spread: whether it should go where little runs.
        """

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Return calls that ended, at most so many; wait for so many, and so long, at most."""

    def results(self, reference: Reference, number: int) -> Sequence[AttemptResult]:
        """Return what became of the steps, of which there are so many, of a batch that ended.

        Raises:
            SharedFolderError: the worker's node does not see a folder of the job.
        """

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Cancel those that have not ended: interrupt them, or with force kill their workers."""
