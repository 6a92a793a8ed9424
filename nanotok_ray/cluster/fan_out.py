"""One fan-out over slices: run what is not done, tell about it, fail if slices failed for good.

Takes tasks; does not know what they do, nor what becomes of those that may be left out.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from nanotok_ray.cluster.engine import Ended, Patience, Task, run_tasks
from nanotok_ray.cluster.events import (
    Advanced,
    AttemptFailed,
    Note,
    OnEvent,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.cluster.outcome import Failure
from nanotok_ray.errors import SliceError

SHOWN_FAILURES = 5


def fan_out(
    stage: str,
    tasks: Sequence[Task],
    *,
    kept: int,
    on_event: OnEvent,
    max_skipped: int = 0,
    on_result: Callable[[Ended], int] = lambda ended: ended.result or 0,
    deadline: float | None = None,
) -> list[Ended]:
    """Run tasks and give those that failed; a failed one does not stop the others.

    Args:
        stage: count, merge, tokenize or verify.
        tasks: what is not done yet.
        kept: how many slices were done already.
        on_event: told of start, progress, notes and end.
        max_skipped: so many may fail; more fail the job at the end.
        on_result: given each task that ended well; gives the bytes it stands for.
        deadline: seconds that an attempt may run for each started GiB; None: as `Patience` says.

    Raises:
        SliceError: naming the slices that failed, their input files, and why.
        SharedFolderError: a node does not see a folder of the tasks.
    """
    size = sum(task.num_bytes for task in tasks)
    on_event(StageStarted(stage=stage, todo=len(tasks), kept=kept, num_bytes=size))
    start = time.perf_counter()
    num_bytes = 0
    failures: list[Ended] = []
    for done, ended in enumerate(_run(stage, tasks, on_event, deadline), start=1):
        if ended.error is not None:
            failures.append(ended)
        done_bytes = 0 if ended.error is not None else on_result(ended)
        num_bytes += done_bytes
        on_event(_slice_ended(stage, ended, done_bytes))
        on_event(
            Advanced(
                stage=stage, done=done, todo=len(tasks), num_bytes=num_bytes, failed=len(failures)
            )
        )
    if tasks:
        on_event(StageEnded(stage=stage, seconds=time.perf_counter() - start, num_bytes=num_bytes))
    if len(failures) > max_skipped:
        raise SliceError(_told(stage, failures, len(tasks)))
    return failures


def _run(
    stage: str, tasks: Sequence[Task], on_event: OnEvent, deadline: float | None
) -> Iterator[Ended]:
    def on_note(text: str) -> None:
        on_event(Note(text=f"{stage}: {text}"))

    def on_failure(name: str, slices: int, failure: Failure) -> None:
        cause, text = failure.cause.value, failure.text
        on_event(AttemptFailed(stage=stage, name=name, slices=slices, cause=cause, text=text))

    if tasks:
        patience = Patience() if deadline is None else Patience(deadline=deadline)
        yield from run_tasks(tasks, patience=patience, on_note=on_note, on_failure=on_failure)


def _slice_ended(stage: str, ended: Ended, num_bytes: int) -> SliceEnded:
    return SliceEnded(
        stage=stage,
        name=ended.task.name,
        began=ended.began,
        seconds=ended.seconds,
        num_bytes=num_bytes,
        worker=ended.worker,
        attempts=ended.attempts,
        error=ended.error,
        estimate=ended.task.num_bytes,
    )


def _told(stage: str, failures: Sequence[Ended], total: int) -> str:
    lines = [
        f"{stage}: {len(failures)} of {total} slices failed; the others are kept, run the job again"
    ]
    lines += [told_failure(failed) for failed in failures[:SHOWN_FAILURES]]
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"  and {len(failures) - SHOWN_FAILURES} more")
    return "\n".join(lines)


def told_failure(failed: Ended) -> str:
    """Say in a line which slice failed, of which input files, and why."""
    inputs = failed.task.told_inputs
    of = f" (of {inputs})" if inputs else ""
    return f"  {failed.task.name}{of}: {failed.error}"
