"""One fan-out over slices: run what is not done, tell about it, fail if a slice failed for good."""

import time
from collections.abc import Callable, Iterator, Sequence

from nanotok_ray.cluster.engine import Ended, Task, run_tasks
from nanotok_ray.cluster.events import Advanced, OnEvent, StageEnded, StageStarted
from nanotok_ray.errors import SliceError

SHOWN_FAILURES = 5


def fan_out(
    stage: str,
    tasks: Sequence[Task],
    *,
    kept: int,
    on_event: OnEvent,
    window: int | None = None,
    is_enough: Callable[[Ended], bool] | None = None,
    max_skipped: int = 0,
) -> list[Ended]:
    """Run tasks; a failed one does not stop the others, but fails the job at the end.

    Args:
        stage: count or tokenize.
        tasks: what is not done yet.
        kept: how many slices were done already.
        on_event: told of start, progress and end.
        window: tasks in flight at most.
        max_skipped: so many may fail for good and are given back; more fail the job.
        is_enough: asked after each task; True ends the stage early.

    Raises:
        SliceError: naming the slices that failed, and why.
    """
    size = sum(task.num_bytes for task in tasks)
    on_event(StageStarted(stage=stage, todo=len(tasks), kept=kept, num_bytes=size))
    start = time.perf_counter()
    num_bytes = 0
    failures: list[Ended] = []
    for done, ended in enumerate(_run(tasks, window), start=1):
        num_bytes += ended.result or 0
        if ended.error is not None:
            failures.append(ended)
        on_event(
            Advanced(
                stage=stage, done=done, todo=len(tasks), num_bytes=num_bytes, failed=len(failures)
            )
        )
        if is_enough is not None and is_enough(ended):
            break
    if tasks:
        on_event(StageEnded(stage=stage, seconds=time.perf_counter() - start, num_bytes=num_bytes))
    if len(failures) > max_skipped:
        raise SliceError(_told(stage, failures, len(tasks)))
    return failures


def _run(tasks: Sequence[Task], window: int | None) -> Iterator[Ended]:
    return run_tasks(tasks, window=window) if tasks else iter(())


def _told(stage: str, failures: Sequence[Ended], total: int) -> str:
    lines = [
        f"{stage}: {len(failures)} of {total} slices failed; the others are kept, run the job again"
    ]
    lines += [f"  {failed.task.name}: {failed.error}" for failed in failures[:SHOWN_FAILURES]]
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"  and {len(failures) - SHOWN_FAILURES} more")
    return "\n".join(lines)
