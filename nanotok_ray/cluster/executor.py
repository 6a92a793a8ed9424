"""What runs the tasks of a job: a session in which tasks can run, and the run itself.

The stages ask `current_executor()`, which is Ray unless `use_executor` has set another one. Does
not know what a task does, nor which stage it belongs to.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from nanotok_ray.cluster.engine import Ended, OnFailure, Patience, SharedFolder, Task, run_tasks
from nanotok_ray.cluster.session import ray_session


class Executor(Protocol):
    """Runs the tasks of a stage, in sessions that the job opens around its stages."""

    def session(
        self, *, workers: int | None = None, shared: Collection[SharedFolder] = ()
    ) -> AbstractContextManager[None]:
        """Return a context manager inside which tasks can run; sessions may be nested.

        Args:
            workers: The CPUs to use where the executor starts workers itself; None: all of them.
            shared: The folders that every node must see as they are here.

        Raises:
            NanotokError: The session cannot be opened; see `session.ray_session`.
        """

    def run(
        self,
        tasks: Sequence[Task],
        *,
        patience: Patience,
        on_note: Callable[[str], None],
        on_failure: OnFailure,
        on_look: Callable[[int], None],
    ) -> Iterator[Ended]:
        """Run tasks inside a session and yield each as it ends, in any order.

        Closing the iterator early cancels the tasks that have not ended.

        Args:
            tasks: The tasks to run.
            patience: How often and when a failed attempt is repeated.
            on_note: Called with a text that a person should read.
            on_failure: Called for each failed attempt that may be repeated: the name of the first
                slice, the number of slices, and the failure.
            on_look: Called with the number of calls that seem to run.

        Raises:
            SharedFolderError: A node does not see a folder of the tasks.
        """


class RayExecutor:
    """Runs tasks on Ray: the running one, the cluster of RAY_ADDRESS, or a local one."""

    def session(
        self, *, workers: int | None = None, shared: Collection[SharedFolder] = ()
    ) -> AbstractContextManager[None]:
        """Return a Ray session; see `session.ray_session`."""
        return ray_session(workers=workers, shared=shared)

    def run(
        self,
        tasks: Sequence[Task],
        *,
        patience: Patience,
        on_note: Callable[[str], None],
        on_failure: OnFailure,
        on_look: Callable[[int], None],
    ) -> Iterator[Ended]:
        """Run tasks on the Ray session that is open; see `engine.run_tasks`."""
        return run_tasks(
            tasks, patience=patience, on_note=on_note, on_failure=on_failure, on_look=on_look
        )


_executors: list[Executor] = [RayExecutor()]
"""The default, then the ones that `use_executor` has set; the last one is used."""


def current_executor() -> Executor:
    """Return the executor that jobs of this process use: `RayExecutor`, unless another is set."""
    return _executors[-1]


@contextmanager
def use_executor(executor: Executor) -> Iterator[None]:
    """Use another executor for all jobs of this process while the block runs.

    The executor is set for the whole process and not for the current thread only, because a job
    may ask for it from a thread that it started. Blocks may be nested; they must not overlap
    otherwise, so do not call this from several threads.

    Args:
        executor: The executor that `current_executor` returns inside the block.
    """
    _executors.append(executor)
    try:
        yield
    finally:
        _executors.pop()
