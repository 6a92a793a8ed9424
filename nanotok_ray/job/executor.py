"""Executors run the tasks of a job: sessions, and in them the runner over a pool of workers.

A stage is given a `Runtime`: the executor, and the listener of its events.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nanotok_ray.job.events import OnEvent, ignore
from nanotok_ray.job.probes import Required, Shared
from nanotok_ray.job.runner import TaskListener, run_tasks
from nanotok_ray.job.task import RetryPolicy, Task, TaskResult
from nanotok_ray.job.worker_pool import WorkerPool
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from nanotok_ray.job.counting import Training
    from nanotok_ray.job.reducing import WeightedCounts
    from nanotok_ray.tokenizer import Tokenizer


class Executor(ABC):
    """Runs the tasks of a stage on the workers of a session.

    A subclass opens sessions and returns their workers; the runner is the same for all.
    """

    name: ClassVar[str]
    """The name in the journal."""

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Check, before anything is planned, that a session can be opened.

        Raises:
            NanotokError: The session cannot be opened; see `session.check_address`.
        """

    def starting(self) -> str:
        """Return what opening a session does, for people."""
        return "starting workers"

    @abstractmethod
    def session(
        self, *, cpus: int | None = None, shared: Collection[Shared] = ()
    ) -> AbstractContextManager[None]:
        """Return a context manager in which tasks can run; sessions may be nested.

        Args:
            cpus: The CPUs to use where the executor starts workers itself; None: all of them.
            shared: The folders and sources that every node must see as they are here.

        Raises:
            NanotokError: The session cannot be opened; see `session.ray_session`.
        """

    @abstractmethod
    def pool(self, probes: Sequence[Required]) -> WorkerPool:
        """Return the workers of the session that is open; they check the probes first."""

    def run(
        self,
        tasks: Sequence[Task],
        *,
        retry_policy: RetryPolicy | None = None,
        listener: TaskListener | None = None,
    ) -> Iterator[TaskResult]:
        """Run tasks inside a session and yield each as it ends, in any order.

        Closing the iterator early cancels the tasks that have not ended.

        Args:
            tasks: The tasks to run.
            retry_policy: How often and when a failed attempt is repeated.
            listener: What is called meanwhile.

        Raises:
            NodeError: No node can run the tasks; a SharedFolderError if they do not see a folder.
        """
        return run_tasks(tasks, pool_of=self.pool, retry_policy=retry_policy, listener=listener)

    @abstractmethod
    def learn(
        self, training: "Training", summed: "WeightedCounts", out: Folder, *, on_event: OnEvent
    ) -> "Tokenizer":
        """Run the learner where `[learner]` of the recipe asks for it, and return its tokenizer.

        Raises:
            SliceError: Its worker or node died each time.
            NanotokError: The learner raised it.
        """

    def metrics(self) -> OnEvent:
        """Return a new listener that records the metrics of one run."""
        return ignore


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where the tasks of a run are processed, and what is called with its events."""

    executor: Executor
    cpus: int | None = None
    """The CPUs to use where the executor starts workers itself; None: all of them."""
    on_event: OnEvent = ignore
    """Called with the events of start, progress, notes and end."""

    def session(self, shared: Collection[Shared] = ()) -> AbstractContextManager[None]:
        """Open a session of the executor; sessions may be nested."""
        return self.executor.session(cpus=self.cpus, shared=shared)
