"""The journal of a run in OUT/run/journal: its names and rows, and the reader."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import MAX_JSON_BYTES
from nanotok_ray.formats.codec import Finite, Number, Numbers, from_values, omitted, to_values
from nanotok_ray.job.events import (
    AttemptFailed,
    ClusterSize,
    Note,
    Planned,
    PlannedStage,
    SliceEnded,
)
from nanotok_ray.storage import Folder
from nanotok_ray.units import without_secrets

T = TypeVar("T")

DONE, FAILED, INTERRUPTED, TERMINATED = ENDS = ("done", "failed", "interrupted", "terminated")
"""The ways in which a run can end."""

JOURNAL_FOLDER = "run/journal"
JOURNAL_FORMAT = "nanotok-journal 1"

READERS = 16
"""The number of segments to read in parallel, because each is a small object."""

MAX_CHARS = 2000
"""Limit of the texts of a row."""

_NAME = re.compile(rf"{JOURNAL_FOLDER}/(\d{{6,18}})-(\d{{6,18}})\.jsonl")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHead:
    """The first row of a run; a value is None if the journal does not have it."""

    at: Finite = omitted(0.0)
    format: str | None = omitted()
    run: Number | None = omitted()
    command: str | None = omitted()
    """prepare, train or tokenize."""
    arguments: str | None = omitted()
    """The command line of the process."""
    started: str | None = omitted()
    """The start in ISO 8601 format."""
    host: str | None = omitted()
    pid: Number | None = omitted()
    version: str | None = omitted()
    core: str | None = omitted()
    executor: str | None = omitted()
    python: str | None = omitted()
    ray_job: str | None = omitted()
    ray: str | None = omitted()
    cpus: Number | None = omitted()
    nodes: Number | None = omitted()
    recipe: str | None = omitted()
    """The text of the recipe."""
    work: str | None = omitted()
    """The URL of the work folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """The last row of a run."""

    at: Finite
    status: str
    """One of `ENDS`."""
    error: str | None = omitted()
    seconds: Finite | None = omitted()
    failed_attempts: Numbers | None = omitted()
    """Failed attempts by cause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedNote(Note):
    """A note, with its time."""

    at: Finite


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A stage of the run. A stage that ran twice (count with max_chars) is listed twice.

    The row of a stage has the first five fields; the others are of later rows.
    """

    name: str
    todo: Number
    kept: Number
    """The number of slices that were finished before."""
    num_bytes: Number
    at: Finite
    """The time at which it started."""
    done: Number = omitted(0)
    failed: Number = omitted(0)
    done_bytes: Number = omitted(0)
    progress: tuple[tuple[Finite, Number, Number], ...] = omitted(())
    """For stages without slices: time, done and todo of some moments."""
    seconds: Finite | None = omitted()
    """The duration in seconds; None if it has not ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageProgressRow:
    """The row of progress of a stage without slices."""

    done: Number
    todo: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEndRow:
    """The row of the end of a stage."""

    seconds: Finite
    num_bytes: Number
    done: Number | None = omitted()
    """The last progress of a stage without slices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalledSlice(SliceEnded):
    """A slice (or group of count files, or unit of an export) that ended in this run."""

    at: Finite


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt(AttemptFailed):
    """An attempt that failed and may have been tried again."""

    at: Finite


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJournal:
    """The content of the journal of a run."""

    run: int
    head: RunHead
    last_at: float
    """The time of the last event."""
    notes: tuple[TimedNote, ...] = ()
    planned: tuple[PlannedStage, ...] = ()
    """The planned stages of the run; empty in journals of earlier versions."""
    cluster: ClusterSize | None = None
    """The size of the cluster when it was last seen to differ from that of the head."""
    stages: tuple[Stage, ...] = ()
    slices: tuple[JournalledSlice, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    end: RunEnd | None = None
    """None if the run has not ended."""
    missing_segments: int = 0
    """The number of segments between others that are missing or cannot be read."""


def segment_name(run: int, segment: int) -> str:
    """Return the path of a segment, relative to the output folder.

    >>> segment_name(17, 2)
    'run/journal/000017-000002.jsonl'
    """
    return f"{JOURNAL_FOLDER}/{run:06d}-{segment:06d}.jsonl"


def runs_in(out: Folder) -> dict[int, list[int]]:
    """Return the numbers of the segments of each run, all in ascending order."""
    segments: dict[int, list[int]] = {}
    for name in out.list(f"{JOURNAL_FOLDER}/"):
        match = _NAME.fullmatch(name)
        if match is not None:
            segments.setdefault(int(match[1]), []).append(int(match[2]))
    return {run: sorted(segments[run]) for run in sorted(segments)}


def journal_text(text: str) -> str:
    """Return a text for the journal, without secrets and cut to MAX_CHARS."""
    return without_secrets(text)[:MAX_CHARS]


ROWS: dict[str, type[Any]] = {
    "run": RunHead,
    "plan": Planned,
    "stage": Stage,
    "slice": JournalledSlice,
    "attempt": FailedAttempt,
    "cluster": ClusterSize,
    "progress": StageProgressRow,
    "stage end": StageEndRow,
    "note": TimedNote,
    "end": RunEnd,
}
"""The value of a row by its `event`."""

_NAMES = {kind: name for name, kind in ROWS.items()}
_NAMES |= {Note: "note", SliceEnded: "slice", AttemptFailed: "attempt"}
"""The `event` of rows, and of the events of which they are made."""

_TEXTS = ("text", "error")


def row_of(value: object, at: float) -> dict[str, object]:
    """Return the row of an event, or of a value of `ROWS`, at a time.

    >>> row_of(ClusterSize(cpus=4, nodes=2), 1.5)
    {'event': 'cluster', 'at': 1.5, 'cpus': 4, 'nodes': 2}
    """
    row = {"event": _NAMES[type(value)], "at": at, **to_values(value)}
    for name, item in row.items():
        if isinstance(item, float):
            row[name] = round(item, 3)
        elif name in _TEXTS and item is not None:
            row[name] = journal_text(item)
    return row


def read_journal(out: Folder, run: int | None = None) -> RunJournal | None:
    """Read the journal of a run.

    Args:
        out: The output folder.
        run: The number of the run; None: the last one.

    Returns:
        The journal, or None if it does not exist.
    """
    runs = runs_in(out)
    number = max(runs, default=0) if run is None else run
    if number not in runs:
        return None
    names = [segment_name(number, segment) for segment in runs[number]]
    values: list[tuple[float, object]] = []
    missing = max(runs[number]) + 1 - len(names)
    with ThreadPoolExecutor(min(READERS, len(names))) as pool:
        for rows in pool.map(lambda name: _rows(out, name), names):
            values += _values(rows or ())
            missing += rows is None
    slices = _all_of(values, JournalledSlice)
    planned = _last_of(values, Planned)
    return RunJournal(
        run=number,
        head=_last_of(values, RunHead) or RunHead(),
        last_at=max((at for at, _ in values), default=0.0),
        notes=_all_of(values, TimedNote),
        planned=() if planned is None else planned.stages,
        cluster=_last_of(values, ClusterSize, since=RunHead),
        stages=tuple(_counted_stages(_stages(values), slices)),
        slices=slices,
        failed_attempts=_all_of(values, FailedAttempt),
        end=_last_of(values, RunEnd, since=Stage),  # a stage after it shows that the run continued
        missing_segments=missing,
    )


def _rows(out: Folder, name: str) -> list[Any] | None:
    """Return the rows of a segment, or None if it cannot be read."""
    try:
        text = out.read_bytes(name, limit=MAX_JSON_BYTES).decode("utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


Values = Sequence[tuple[float, object]]
"""The values of rows, each with its time, in order."""


def _values(rows: Iterable[Any]) -> Iterator[tuple[float, object]]:
    """Yield the values of rows; those of other versions are left out."""
    for row in rows:
        try:
            at = float(from_values(Finite, row.get("at"), name=""))
            yield at, from_values(ROWS[row["event"]], row, name="")
        except (CorruptOutputError, LookupError, TypeError):
            continue


def _all_of(values: Values, kind: type[T]) -> tuple[T, ...]:
    return tuple(value for _, value in values if isinstance(value, kind))


def _last_of(values: Values, kind: type[T], *, since: type | None = None) -> T | None:
    """Return the last value of a type, or None if a value of the type `since` follows it."""
    for _, value in reversed(values):
        if isinstance(value, kind):
            return value
        if since is not None and isinstance(value, since):
            return None
    return None


def _stages(values: Values) -> list[Stage]:
    """Return the stages with their progress and their ends."""
    stages: list[Stage] = []
    for at, value in values:
        if isinstance(value, Stage):
            stages.append(value)
        if not stages:
            continue
        last = stages[-1]
        match value:
            case StageProgressRow(done=done, todo=todo):
                progress = (*last.progress, (at, done, todo))
                stages[-1] = replace(last, done=done, todo=todo, progress=progress)
            case StageEndRow(seconds=seconds, num_bytes=size, done=done):
                done = last.done if done is None else done
                stages[-1] = replace(last, seconds=seconds, done_bytes=size, done=done)
    return stages


def _counted_stages(stages: Sequence[Stage], slices: Iterable[JournalledSlice]) -> Iterator[Stage]:
    """Yield the stages with the number of slices that ended in each."""
    by_stage: dict[str, list[JournalledSlice]] = defaultdict(list)
    for slice_ in slices:
        by_stage[slice_.stage].append(slice_)
    for number, stage in enumerate(stages):
        again = (later.at for later in stages[number + 1 :] if later.name == stage.name)
        until = next(again, math.inf)
        ended = [slice_ for slice_ in by_stage[stage.name] if stage.at <= slice_.at < until]
        if not ended:
            yield stage
            continue
        yield replace(
            stage,
            done=sum(slice_.slices for slice_ in ended),
            failed=sum(slice_.slices for slice_ in ended if slice_.error is not None),
            done_bytes=sum(slice_.num_bytes for slice_ in ended),
            progress=(),
        )
