"""Stages: keyed items whose results are files and a record, and tasks that report their progress.

An item is done if its record exists and fits. `complete` runs what is missing and returns the
records of all items. `run_checks` runs tasks that leave no records.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from nanotok_ray.errors import (
    CorruptOutputError,
    DiskFullError,
    ExportError,
    NanotokError,
    SliceError,
)
from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    ClusterSize,
    Note,
    OnEvent,
    SliceEnded,
    StageEnded,
    StageStarted,
)
from nanotok_ray.job.executor import Executor, Runtime
from nanotok_ray.job.runner import TaskListener
from nanotok_ray.job.task import Failure, RetryPolicy, Task, TaskResult
from nanotok_ray.job.worker_pool import ClusterResources
from nanotok_ray.shards import AnyRecord, Keyed, Record, Results, StoredRecords
from nanotok_ray.units import quantity

ENDS_STAGE = (DiskFullError, ExportError)
"""Errors that would occur in all slices. The first one ends the stage."""

REUSE_STAGE = "check"
"""The stage that reads the files of results that an unfinished run has left."""

MAX_LISTED_FAILURES = 5
LOOK_SECONDS = 1.0


def num_bytes_of(ended: TaskResult) -> int:
    """Return the bytes of a task whose result is their number."""
    return ended.result or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskRules:
    """What follows from the results and the failures of the tasks of a stage."""

    on_result: Callable[[TaskResult], int] = num_bytes_of
    """Called with each task that succeeded; returns its bytes."""
    max_skipped: int = 0
    """The number of slices that may fail permanently; more fail the job at the end."""
    deadline: float | None = None
    """Time limit of an attempt in seconds for each GiB, rounded up; None: the default of
    `RetryPolicy`."""
    fatal: tuple[type[NanotokError], ...] = ENDS_STAGE
    """The classes of errors that end the stage if a task raises them."""


_Item = TypeVar("_Item", bound=Keyed)
R = TypeVar("R", bound=AnyRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage(Generic[_Item, R]):
    """Keyed items, and the tasks that make their files and records."""

    name: str
    results: Results[_Item, R]
    tasks_of: Callable[[Sequence[_Item]], list[Task]]
    """Returns the tasks of items that are not done; a task can make several."""
    rules: TaskRules
    check: Callable[[_Item, Record[R]], Task | None] | None = None
    """Returns the task that reads the files of a result which an unfinished run has left, and
    returns their problems; None if the files need not be read."""
    leave_out: Callable[[TaskResult], None] | None = None
    """Writes the records of a task that failed and may be skipped; None: they get no record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageResult(Generic[_Item, R]):
    """The items and the records of a stage that has run."""

    stored: StoredRecords[_Item, R]
    """An item that failed and may be skipped has no record."""
    made: frozenset[str]
    """The names of the records of the items that this run has made."""
    skipped: tuple[TaskResult, ...]
    """The tasks that failed."""


def complete(
    stage: Stage[_Item, R], runtime: Runtime, *, stored: StoredRecords[_Item, R] | None = None
) -> StageResult[_Item, R]:
    """Run the tasks of the items that are not done, and return the records of all items.

    Damaged records are removed, and those of damaged files; their items are made again. Requires a
    session.

    Args:
        stage: The items and their tasks.
        runtime: The executor, whose session is open, and the listener.
        stored: The result of `find`, if it is known; otherwise damaged records get a note.

    Raises:
        SliceError: More items failed permanently than may be skipped.
        CorruptOutputError: A record that a worker has written is missing.
        NanotokError: A fatal error.
    """
    results = stage.results
    if stored is None:
        stored = results.find()
        for note in stored.notes(results.folder):
            runtime.on_event(Note(text=note))
    stored.remove_damaged(results.folder)
    stored = _checked(stage, stored, runtime)
    todo = stored.missing
    tasks = stage.tasks_of(todo)
    skipped = run_stage(
        stage.name,
        tasks,
        runtime,
        num_done=len(results.items) - sum(task.slices for task in tasks),
        rules=stage.rules,
    )
    without_record = []
    for ended in skipped:
        if stage.leave_out is None:
            without_record.append(ended.task.argument)
        else:
            stage.leave_out(ended)
    made = replace(results, items=todo).find() if todo else stored
    for item in made.missing:
        if item not in without_record:
            state = "damaged" if item.record_name in made.damaged else "missing"
            raise CorruptOutputError(
                f"{results.folder.join(item.record_name)} was written by a worker, and it or a "
                f"file that it names is {state} here; is the folder on storage that every node "
                "shares, and does no other process write to it?"
            )
    return StageResult(
        stored=replace(stored, records={**stored.records, **made.records}),
        made=frozenset(item.record_name for item in todo),
        skipped=tuple(skipped),
    )


def _checked(
    stage: Stage[_Item, R], stored: StoredRecords[_Item, R], runtime: Runtime
) -> StoredRecords[_Item, R]:
    """Remove the records whose files have changed since an unfinished run wrote them."""
    tasks: dict[str, Task] = {}
    for item, record in stored.done if stage.check is not None else ():
        task = stage.check(item, record) if stage.check is not None else None
        if task is not None:
            tasks[item.record_name] = task
    if not tasks:
        return stored
    records = dict(stored.records)
    checks = run_checks(REUSE_STAGE, list(tasks.values()), runtime)
    for name, check in zip(tasks, checks, strict=True):
        for problem in check.result[:1]:
            runtime.on_event(Note(text=f"{problem}; its result is made again"))
            stage.results.folder.remove(name)
            del records[name]
    return replace(stored, records=records)


def run_checks(
    stage: str,
    tasks: Sequence[Task],
    runtime: Runtime,
    *,
    max_skipped: int = 0,
    fatal: tuple[type[NanotokError], ...] = ENDS_STAGE,
) -> list[TaskResult]:
    """Run tasks of different names that leave no records; return the results in their order.

    The arguments and the errors are those of `run_stage` and `TaskRules`.
    """
    ended: dict[str, TaskResult] = {}

    def add(result: TaskResult) -> int:
        ended[result.task.name] = result
        return result.task.num_bytes

    rules = TaskRules(on_result=add, max_skipped=max_skipped, fatal=fatal)
    for failed in run_stage(stage, tasks, runtime, num_done=0, rules=rules):
        ended[failed.task.name] = failed
    return [ended[task.name] for task in tasks]


def run_stage(
    stage: str,
    tasks: Sequence[Task],
    runtime: Runtime,
    *,
    num_done: int,
    rules: TaskRules | None = None,
) -> list[TaskResult]:
    """Run tasks and return those that failed. A failed task does not stop the others.

    A fatal error cancels the tasks in flight and is raised.

    Args:
        stage: count, merge, tokenize or verify.
        tasks: The unfinished tasks.
        runtime: The executor, whose session is open, and the listener.
        num_done: The number of slices that were finished before.
        rules: What follows from results and failures; None: no slice may fail.

    Raises:
        SliceError: Names the slices that failed, their input files, and the reasons.
        SharedFolderError: A node does not see a folder of the tasks.
        NanotokError: A fatal error, by default a DiskFullError or an ExportError.
    """
    rules, on_event = rules or TaskRules(), runtime.on_event
    size = sum(task.num_bytes for task in tasks)
    todo = sum(task.slices for task in tasks)
    on_event(StageStarted(stage=stage, todo=todo, num_done=num_done, num_bytes=size))
    start = time.perf_counter()
    tally = _Tally(stage, todo, on_event)
    failures: list[TaskResult] = []
    for ended in _run(tally, tasks, runtime.executor, rules.deadline):
        if isinstance(ended.raised, rules.fatal):
            raise ended.raised
        if ended.error is not None:
            failures.append(ended)
        done_bytes = 0 if ended.error is not None else rules.on_result(ended)
        on_event(_slice_ended(stage, ended, done_bytes))
        tally.add(ended, done_bytes)
    if tasks:
        seconds = time.perf_counter() - start
        on_event(StageEnded(stage=stage, seconds=seconds, num_bytes=tally.num_bytes))
    if tally.failed > rules.max_skipped:
        raise SliceError(_message(stage, failures, tally))
    return failures


@dataclass(slots=True)
class _Tally:
    """The progress of a stage, reported with every slice and at least every second."""

    stage: str
    todo: int
    on_event: OnEvent
    done: int = 0
    failed: int = 0
    running: int = 0
    num_bytes: int = 0
    reported_at: float = 0.0

    def add(self, ended: TaskResult, num_bytes: int) -> None:
        """Add the slices of a task that has ended."""
        self.done += ended.task.slices
        self.failed += ended.task.slices if ended.error is not None else 0
        self.num_bytes += num_bytes
        self._report()

    def look(self, running: int) -> None:
        """Record the number of attempts that seem to run."""
        self.running = running
        if time.monotonic() - self.reported_at >= LOOK_SECONDS:
            self._report()

    def _report(self) -> None:
        self.reported_at = time.monotonic()
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
    tally: _Tally, tasks: Sequence[Task], executor: Executor, deadline: float | None
) -> Iterator[TaskResult]:
    stage, on_event = tally.stage, tally.on_event

    def on_note(text: str) -> None:
        named = text.startswith(f"{stage} ")  # as the tasks of most stages are
        on_event(Note(text=text if named else f"{stage}: {text}"))

    def on_failure(task: Task, failure: Failure) -> None:
        on_event(
            AttemptFailed(
                stage=stage,
                name=task.name,
                slices=task.slices,
                cause=failure.cause.value,
                text=failure.text,
            )
        )

    def on_cluster(resources: ClusterResources) -> None:
        if resources.nodes:
            cpus = sum(resources.nodes.values())
            on_event(ClusterSize(cpus=cpus, nodes=resources.num_nodes))

    if tasks:
        retry_policy = RetryPolicy() if deadline is None else RetryPolicy(deadline=deadline)
        listener = TaskListener(
            on_note=on_note,
            on_failure=on_failure,
            on_running=tally.look,
            on_cluster=on_cluster,
        )
        yield from executor.run(tasks, retry_policy=retry_policy, listener=listener)


def _slice_ended(stage: str, ended: TaskResult, num_bytes: int) -> SliceEnded:
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


def _message(stage: str, failures: Sequence[TaskResult], tally: _Tally) -> str:
    counted = f"{stage}: {tally.failed} of {quantity(tally.todo, 'slice')}"
    lines = [f"{counted} failed; the others are kept, run the job again"]
    lines += [format_failure(failed) for failed in failures[:MAX_LISTED_FAILURES]]
    if more := sum(failed.task.slices for failed in failures[MAX_LISTED_FAILURES:]):
        lines.append(f"  and {more} more")
    return "\n".join(lines)


def format_failure(failed: TaskResult) -> str:
    """Return a line with the slice that failed, its input files and the error."""
    inputs = failed.task.inputs_text
    of = f" (of {inputs})" if inputs else ""
    return f"  {failed.task.name}{of}: {failed.error}"
