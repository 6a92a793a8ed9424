"""One fan-out over slices: run what is not done, tell about it, fail if slices failed for good.

Takes tasks; does not know what they do, nor what becomes of those that may be left out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nanotok_ray.cluster.engine import Ended, Patience, Task
from nanotok_ray.cluster.events import (
    Advanced,
    AttemptFailed,
    Note,
    OnEvent,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.cluster.executor import Executor, current_executor
from nanotok_ray.cluster.outcome import Failure
from nanotok_ray.errors import DiskFullError, ExportError, SliceError

ENDS_STAGE = (DiskFullError, ExportError)
"""Errors of one slice that all others would meet too: the stage ends with the first."""

SHOWN_FAILURES = 5
LOOK_SECONDS = 1.0


def fan_out(
    stage: str,
    tasks: Sequence[Task],
    *,
    kept: int,
    on_event: OnEvent,
    max_skipped: int = 0,
    on_result: Callable[[Ended], int] = lambda ended: ended.result or 0,
    deadline: float | None = None,
    executor: Executor | None = None,
) -> list[Ended]:
    """Run tasks and give those that failed; a failed one does not stop the others.

    An error of `ENDS_STAGE` does: what is in flight is cancelled, and the error is raised.

    Args:
        stage: count, merge, tokenize or verify.
        tasks: what is not done yet.
        kept: how many slices were done already.
        on_event: told of start, progress, notes and end.
        max_skipped: so many may fail; more fail the job at the end.
        on_result: given each task that ended well; gives the bytes it stands for.
        deadline: seconds that an attempt may run for each started GiB; None: as `Patience` says.
        executor: what runs the tasks; None: `current_executor()`.

    Raises:
        SliceError: naming the slices that failed, their input files, and why.
        SharedFolderError: a node does not see a folder of the tasks.
        DiskFullError: a disk is full.
        ExportError: a layout cannot hold the output.
    """
    size = sum(task.num_bytes for task in tasks)
    todo = sum(task.slices for task in tasks)
    on_event(StageStarted(stage=stage, todo=todo, kept=kept, num_bytes=size))
    start = time.perf_counter()
    tally = _Tally(stage, todo, on_event)
    failures: list[Ended] = []
    for ended in _run(tally, tasks, deadline, executor or current_executor()):
        if isinstance(ended.raised, ENDS_STAGE):
            raise ended.raised
        if ended.error is not None:
            failures.append(ended)
        done_bytes = 0 if ended.error is not None else on_result(ended)
        on_event(_slice_ended(stage, ended, done_bytes))
        tally.add(ended, done_bytes)
    if tasks:
        seconds = time.perf_counter() - start
        on_event(StageEnded(stage=stage, seconds=seconds, num_bytes=tally.num_bytes))
    if tally.failed > max_skipped:
        raise SliceError(_told(stage, failures, tally))
    return failures


@dataclass(slots=True)
class _Tally:
    """How far a fan-out is, told with every slice, and where none ends, every second."""

    stage: str
    todo: int
    on_event: OnEvent
    done: int = 0
    failed: int = 0
    running: int = 0
    num_bytes: int = 0
    told_at: float = 0.0

    def add(self, ended: Ended, num_bytes: int) -> None:
        """Add the slices of a task that has ended."""
        self.done += ended.task.slices
        self.failed += ended.task.slices if ended.error is not None else 0
        self.num_bytes += num_bytes
        self._tell()

    def look(self, running: int) -> None:
        """So many calls seem to run now."""
        self.running = running
        if time.monotonic() - self.told_at >= LOOK_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self.told_at = time.monotonic()
        self.on_event(
            Advanced(
                stage=self.stage,
                done=self.done,
                todo=self.todo,
                num_bytes=self.num_bytes,
                failed=self.failed,
                running=self.running,
            )
        )


def _run(
    tally: _Tally, tasks: Sequence[Task], deadline: float | None, executor: Executor
) -> Iterator[Ended]:
    stage, on_event = tally.stage, tally.on_event

    def on_note(text: str) -> None:
        on_event(Note(text=f"{stage}: {text}"))

    def on_failure(name: str, slices: int, failure: Failure) -> None:
        cause, text = failure.cause.value, failure.text
        on_event(AttemptFailed(stage=stage, name=name, slices=slices, cause=cause, text=text))

    if tasks:
        patience = Patience() if deadline is None else Patience(deadline=deadline)
        yield from executor.run(
            tasks,
            patience=patience,
            on_note=on_note,
            on_failure=on_failure,
            on_look=tally.look,
        )


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
        slices=ended.task.slices,
    )


def _told(stage: str, failures: Sequence[Ended], tally: _Tally) -> str:
    counted = f"{stage}: {tally.failed} of {tally.todo}"
    lines = [f"{counted} slices failed; the others are kept, run the job again"]
    lines += [told_failure(failed) for failed in failures[:SHOWN_FAILURES]]
    if more := sum(failed.task.slices for failed in failures[SHOWN_FAILURES:]):
        lines.append(f"  and {more} more")
    return "\n".join(lines)


def told_failure(failed: Ended) -> str:
    """Say in a line which slice failed, of which input files, and why."""
    inputs = failed.task.told_inputs
    of = f" (of {inputs})" if inputs else ""
    return f"  {failed.task.name}{of}: {failed.error}"
