"""The interface of the workers of a session, and the function that they run."""

import os
import socket
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nanotok_ray.errors import (
    OF_THE_MACHINE,
    NanotokError,
    NodeError,
    TransientIOError,
    os_error_message,
)
from nanotok_ray.job.probes import Required, see
from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.storage.retries import causes


@dataclass(frozen=True, slots=True)
class ClusterResources:
    """The CPUs of all nodes, and the CPUs and memory (bytes) of the node with the most memory."""

    cpus: int
    node_cpus: int
    node_memory: int
    nodes: Mapping[str, int] = field(default_factory=dict)
    """The CPUs of each node that runs slices, by its id; empty if all slices run on one machine."""
    num_nodes: int = 1
    """The number of all nodes, with those that run no slices."""

    def without(self, unfit: Collection[str]) -> "ClusterResources":
        """Return the resources without those of some nodes.

        >>> both = ClusterResources(cpus=12, node_cpus=8, node_memory=0, nodes={"a": 4, "b": 8})
        >>> both.without({"b"}).cpus
        4
        """
        if not self.nodes.keys() & unfit:
            return self
        nodes = {node: cpus for node, cpus in self.nodes.items() if node not in unfit}
        return replace(self, cpus=max(1, sum(nodes.values())), nodes=nodes)

    def request(self, level: int) -> "Request":
        """Return the CPUs and the memory that an attempt of a memory level requests.

        The request includes CPUs: attempts of level 0 request no memory, and only the CPUs of
        others keep them off a node.

        >>> ClusterResources(cpus=64, node_cpus=8, node_memory=16_000).request(1)
        Request(cpus=2, memory=4000)
        >>> ClusterResources(cpus=64, node_cpus=8, node_memory=16_000).request(9)
        Request(cpus=8, memory=16000)
        """
        cpus = min(1 << level, self.node_cpus)
        memory = self.node_memory * cpus // self.node_cpus if level else None
        return Request(cpus=cpus, memory=memory)


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """The resources of an attempt."""

    cpus: int
    memory: int | None
    """In bytes; None: no memory is requested."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A call `work(argument)` for a worker."""

    name: str
    """The name that is shown to users."""
    work: Callable[[Any], Any]
    argument: Any
    request: Request
    spread: bool = False
    """Whether it should run on a node with little load."""
    avoid: frozenset[str] = frozenset()
    """The ids of nodes on which it must not run."""


TRACEBACK_LIMIT = -8


def run_attempt(
    work: Callable[[Any], Any], argument: object, probes: Sequence[Required]
) -> AttemptResult:
    """Run a task in a worker and return its outcome.

    Raises:
        SharedFolderError: this node does not see a folder of the job; nothing was run.
        TransientIOError: storage failed temporarily while the folders were checked.
    """
    for probe in probes:
        see(probe)
    began = time.time()
    worker = f"{socket.gethostname()}/{os.getpid()}"
    return replace(_outcome(work, argument), began=began, worker=worker)


def _outcome(work: Callable[[Any], Any], argument: object) -> AttemptResult:
    start = time.perf_counter()
    try:
        result = work(argument)
    except TransientIOError as error:
        return _failed(Cause.STORAGE, str(error), start)
    except NanotokError as error:
        return _failed(_cause_of(error), str(error), start, raised=error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of native code is not an Exception
        if isinstance(error, OSError) and error.filename and error.errno in OF_THE_MACHINE:
            return _failed(_cause_of(error), os_error_message(error), start)
        text = "".join(traceback.format_exception(error, limit=TRACEBACK_LIMIT)).rstrip()
        return _failed(_cause_of(error), text, start)
    return AttemptResult(result=result, seconds=time.perf_counter() - start)


OF_A_NODE = (ImportError, FileNotFoundError, NotADirectoryError, PermissionError)
"""Errors that another node need not have, beside those of the credentials of a store."""


def _cause_of(error: BaseException) -> Cause:
    """Return `Cause.SETUP` for an error that another node may not have, otherwise `Cause.ERROR`."""
    for cause in causes(error):
        if isinstance(cause, OF_A_NODE) or "Credential" in type(cause).__name__:
            return Cause.SETUP
    return Cause.ERROR


def _failed(
    cause: Cause, text: str, start: float, *, raised: NanotokError | None = None
) -> AttemptResult:
    return AttemptResult(seconds=time.perf_counter() - start, failure=Failure(cause, text, raised))


def call_failure(error: Exception, text: str) -> Failure:
    """Return the failure of a call in which an error was raised outside of its task.

    Args:
        error: The error.
        text: The description of an error that is not a NanotokError.
    """
    if isinstance(error, NodeError):
        return Failure(Cause.UNFIT, str(error), error)
    if isinstance(error, TransientIOError):
        return Failure(Cause.STORAGE, str(error))
    return Failure(Cause.CALL, str(error) if isinstance(error, NanotokError) else text)


Reference = Hashable
"""A reference to a call that was started."""


class WorkerPool(Protocol):
    """Calls on a cluster, and its clock. Times are in seconds."""

    def now(self) -> float:
        """Return the time in seconds; only differences of times are meaningful."""

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    def resources(self) -> ClusterResources:
        """Return the current resources of the cluster."""

    def free_cpus(self) -> int:
        """Return the number of idle CPUs, which can be slightly out of date."""

    def submit(self, call: Call) -> Reference:
        """Start a call when a worker is free."""

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Return at most `number` calls that ended; wait for them at most `seconds`."""

    def result(self, reference: Reference) -> AttemptResult:
        """Return the outcome of a call that ended."""

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Cancel calls that have not ended: interrupt them or, with force, kill their workers."""
