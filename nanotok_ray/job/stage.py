"""One stage over slices: its progress, its failures, and the conditions that end it early."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from nanotok_ray.errors import (
    DiskFullError,
    ExportError,
    NanotokError,
    QuarantineLimitError,
    SliceError,
)
from nanotok_ray.formats import CountRecord, ShardRecord, SourceFile
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
from nanotok_ray.job.executor import Executor, current_executor
from nanotok_ray.job.task import Failure, RetryPolicy, Task, TaskResult
from nanotok_ray.job.work import AllBad
from nanotok_ray.job.worker_pool import ClusterResources
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.shards import Record
from nanotok_ray.sources import (
    BY_CHOICE,
    TAIL,
    FirstBad,
    Piece,
    QuarantineEntry,
    Slice,
    entry_of,
    estimated_bytes,
    format_first_bad,
    is_quarantine_file,
    locations_of,
    reason_of,
)
from nanotok_ray.storage import Folder
from nanotok_ray.units import quantity

ENDS_STAGE = (DiskFullError, ExportError)
"""Errors that would occur in all slices. The first one ends the stage."""

REUSE_STAGE = "check"
"""The stage that reads the files of results that an unfinished run has left."""

MAX_LISTED_FAILURES = 5
LOOK_SECONDS = 1.0


def run_stage(
    stage: str,
    tasks: Sequence[Task],
    *,
    num_done: int,
    on_event: OnEvent,
    max_skipped: int = 0,
    on_result: Callable[[TaskResult], int] = lambda ended: ended.result or 0,
    deadline: float | None = None,
    fatal: tuple[type[NanotokError], ...] = ENDS_STAGE,
    executor: Executor | None = None,
) -> list[TaskResult]:
    """Run tasks and return those that failed. A failed task does not stop the others.

    A fatal error cancels the tasks in flight and is raised.

    Args:
        stage: count, merge, tokenize or verify.
        tasks: The unfinished tasks.
        num_done: The number of slices that were finished before.
        on_event: Called with the events of start, progress, notes and end.
        max_skipped: The number of slices that may fail; more fail the job at the end.
        on_result: Called with each task that succeeded; returns its bytes.
        deadline: Time limit of an attempt in seconds for each GiB, rounded up; None: the default of
            `RetryPolicy`.
        fatal: The classes of errors that end the stage if a task raises them.
        executor: The executor that runs the tasks; None: `current_executor()`.

    Raises:
        SliceError: Names the slices that failed, their input files, and the reasons.
        SharedFolderError: A node does not see a folder of the tasks.
        NanotokError: A fatal error, by default a DiskFullError or an ExportError.
    """
    size = sum(task.num_bytes for task in tasks)
    todo = sum(task.slices for task in tasks)
    on_event(StageStarted(stage=stage, todo=todo, num_done=num_done, num_bytes=size))
    start = time.perf_counter()
    tally = _Tally(stage, todo, on_event)
    failures: list[TaskResult] = []
    for ended in _run(tally, tasks, deadline, executor or current_executor()):
        if isinstance(ended.raised, fatal):
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
        """Record the number of batches that seem to run."""
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
    tally: _Tally, tasks: Sequence[Task], deadline: float | None, executor: Executor
) -> Iterator[TaskResult]:
    stage, on_event = tally.stage, tally.on_event

    def on_note(text: str) -> None:
        named = text.startswith(f"{stage} ")  # as the tasks of most stages are
        on_event(Note(text=text if named else f"{stage}: {text}"))

    def on_failure(name: str, slices: int, failure: Failure) -> None:
        cause, text = failure.cause.value, failure.text
        on_event(AttemptFailed(stage=stage, name=name, slices=slices, cause=cause, text=text))

    def on_cluster(resources: ClusterResources) -> None:
        if resources.nodes:
            cpus = sum(resources.nodes.values())
            on_event(ClusterSize(cpus=cpus, nodes=resources.num_nodes))

    if tasks:
        retry_policy = RetryPolicy() if deadline is None else RetryPolicy(deadline=deadline)
        yield from executor.run(
            tasks,
            retry_policy=retry_policy,
            on_note=on_note,
            on_failure=on_failure,
            on_running=tally.look,
            on_cluster=on_cluster,
        )


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


def first_quarantined(
    folder: Folder,
    records: Iterable[tuple[Slice, Record[CountRecord] | Record[ShardRecord]]],
    *,
    tails: bool,
) -> FirstBad | None:
    """Return the first document that was quarantined by no rule of the recipe, or the first tail.

    Args:
        folder: The folder of the quarantine files: the output or work folder.
        records: The records of the slices, in the order of the plan.
        tails: Whether to return only tails.
    """
    for slice_, record in records:
        kinds = record.value.quarantined.keys()
        if (TAIL in kinds) if tails else (kinds - BY_CHOICE):
            for file in record.value.files:
                if is_quarantine_file(file.name):
                    found = first_listed(folder, file.name, slice_, tails=tails)
                    if found is not None:
                        return found
    return None


def first_listed(
    folder: Folder, name: str, slice_: Slice, *, tails: bool = False
) -> FirstBad | None:
    """Return the first such entry of one quarantine file of a slice."""
    for entry in _entries(folder, name):
        if entry.kind == TAIL if tails else entry.kind not in BY_CHOICE:
            (location,) = locations_of([entry], slice_.pieces)
            dialect = next(
                (piece.dialect for piece in slice_.pieces if piece.path == entry.file), None
            )
            read_as = f", read as {dialect}" if dialect and not tails else ""
            return FirstBad(
                location=f"source {entry.source!r}, {location}{read_as}",
                reason=reason_of(entry),
                listed=folder.join(name),
            )
    return None


def _entries(folder: Folder, name: str) -> Iterator[QuarantineEntry]:
    with folder.open(name) as file:
        yield from filter(None, map(entry_of, file))


LEAST_BAD: Final = 10_000
"""The minimum number of documents, all bad, after which a stage can end early."""

_LEAST_BYTES: Final = {"jsonl": 64, "lines": 8}
"""Lower bound of the average bytes of a document on a line, far below that of real text."""


def give_up_after(limits: LimitsRecipe, slices: Iterable[Slice]) -> int | None:
    """Return the number of documents, all bad, after which the limits are exceeded; None: none.

    Let R be rows, G the most lines that can be documents, s the share that may be bad. A result of
    T documents within the limit has at most s * T bad lines, so T <= R + G + s * T.
    """
    allowed = [] if limits.max_quarantined is None else [limits.max_quarantined]
    share = limits.max_quarantined_share
    if share < 1:
        pieces = ((file, piece) for slice_ in slices for file, piece in _pieces(slice_))
        good = sum(_max_documents(file, piece) for file, piece in pieces)
        allowed.append(ceil(share * good / (1 - share)))
    return max(LEAST_BAD, min(allowed) + 1) if allowed else None


def _pieces(slice_: Slice) -> Iterable[tuple[SourceFile, Piece]]:
    return zip(slice_.files, slice_.pieces, strict=True)


def _max_documents(file: SourceFile, piece: Piece) -> int:
    """Return the maximum number of documents of a piece, without bad lines."""
    if piece.format == "parquet":
        return sum(group.rows for group in file.layout[piece.start : piece.stop])
    if piece.format == "document":
        return 1
    return estimated_bytes(file, piece) // _LEAST_BYTES[piece.format] + 1


@dataclass(slots=True)
class GivingUp:
    """The handler of results that ends a stage if all of many documents are bad."""

    stage: str
    folder: Folder
    """The folder of the quarantine files."""
    limits: LimitsRecipe
    after: int | None
    """The result of `give_up_after`."""
    _documents: int = 0
    _slices: int = 0

    def __call__(self, ended: TaskResult) -> int:
        """Return the bytes of a slice that succeeded.

        Raises:
            QuarantineLimitError: The limits are exceeded.
        """
        found = ended.result
        if not isinstance(found, AllBad):
            return found or 0
        self._documents += found.documents
        self._slices += 1
        if self.after is not None and self._documents >= self.after:
            first = first_listed(self.folder, found.listed, ended.task.argument.slice)
            raise QuarantineLimitError(
                f"{self._limit_message()}; {format_first_bad(first, where=self.folder.url)}"
            )
        return 0

    def _limit_message(self) -> str:
        limit = self.limits.max_quarantined
        number = "" if limit is None else f" or limits.max_quarantined = {limit}"
        return (
            f"{self.stage} stopped early: all {self._documents:,} documents that were read of "
            f"{quantity(self._slices, 'slice')} were quarantined, more "
            f"than limits.max_quarantined_share = {self.limits.max_quarantined_share}{number} "
            "allows of the whole input"
        )
