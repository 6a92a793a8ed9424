"""The engine of both fan-outs: a window of stateless tasks in flight, and bounded retries.

Takes tasks (a module-level function and its picklable argument), gives what became of each in order
of completion. Does not know what a task does; state lives in the storage the tasks write to, so a
task may run twice and must not mind. Ray is imported by the functions, not the module: the session
must have set its environment before.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ray

from nanotok_ray.errors import NanotokError, TransientIOError

MAX_RETRIES = 5
"""Attempts after the first: for workers that died, and storage errors that may pass."""

WAIT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One call: `work(argument)`."""

    name: str
    """What a person sees in Ray's lists."""
    work: Callable[[Any], Any]
    argument: Any
    num_bytes: int
    """Estimated bytes it reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """What became of a task: a result, or why there is none."""

    task: Task
    result: Any = None
    seconds: float = 0.0
    """Time of the attempt that succeeded, in its worker."""
    error: str | None = None


def run_tasks(tasks: Iterable[Task], *, window: int | None = None) -> Iterator[Ended]:
    """Run tasks on Ray and give each as it ends.

    Tasks are submitted in order, `window` at a time (default: twice the CPUs of the cluster, at
    least 64, so that an autoscaler sees demand). Leaving the loop early cancels the rest.
    """
    import ray  # noqa: PLC0415 - see above

    remote = ray.remote(num_cpus=1, max_retries=MAX_RETRIES, retry_exceptions=[TransientIOError])(
        _timed
    )
    in_flight: dict[ray.ObjectRef[Any], Task] = {}
    waiting = iter(tasks)
    try:
        while True:
            for task in waiting:
                reference = remote.options(name=task.name).remote(task.work, task.argument)
                in_flight[reference] = task
                if len(in_flight) >= (window or max(64, 2 * num_cpus())):
                    break
            if not in_flight:
                return
            ready, _ = ray.wait(
                list(in_flight), num_returns=1, timeout=WAIT_SECONDS, fetch_local=False
            )
            for reference in ready:
                yield _collect(reference, in_flight.pop(reference))
    finally:
        for reference in in_flight:
            ray.cancel(reference, force=False)


def num_cpus() -> int:
    """Give the CPUs of the cluster as it is now, at least 1."""
    import ray  # noqa: PLC0415 - see above

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _timed(work: Callable[[Any], Any], argument: object) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work(argument)
    return result, time.perf_counter() - start


def _collect(reference: "ray.ObjectRef[Any]", task: Task) -> Ended:
    import ray  # noqa: PLC0415 - see above
    from ray.exceptions import RayError, RayTaskError  # noqa: PLC0415 - see above

    try:
        result, seconds = ray.get(reference)
    except RayTaskError as error:
        cause = error.cause
        told = str(cause) if isinstance(cause, NanotokError) else str(error)
        return Ended(task=task, error=told)
    except RayError as error:
        first_line = str(error).strip().partition("\n")[0]
        return Ended(task=task, error=f"{type(error).__name__}: {first_line}")
    return Ended(task=task, result=result, seconds=seconds)
