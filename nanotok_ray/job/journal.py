"""The journal of a run in OUT/run/journal: its names and rows, and the reader."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

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
    segments = runs[number]
    reading = _Reading(number, missing=max(segments) + 1 - len(segments))
    names = [segment_name(number, segment) for segment in segments]
    for lines in _segments(out, names):
        reading.take(lines)
    return reading.journal()


def _segments(out: Folder, names: Sequence[str]) -> Iterator[list[Any] | None]:
    with ThreadPoolExecutor(min(READERS, len(names))) as pool:
        yield from pool.map(lambda name: _lines(out, name), names)


def _lines(out: Folder, name: str) -> list[Any] | None:
    """Return the rows of a segment, or None if it cannot be read."""
    try:
        text = out.read_bytes(name, limit=MAX_JSON_BYTES).decode("utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


class _Reading:
    """The state of reading a journal."""

    def __init__(self, run: int, *, missing: int) -> None:
        self._run = run
        self._head = RunHead()
        self._last_at = 0.0
        self._missing = missing
        self._notes: list[TimedNote] = []
        self._planned: tuple[PlannedStage, ...] = ()
        self._cluster: ClusterSize | None = None
        self._stages: list[Stage] = []
        self._points: list[list[tuple[float, int, int]]] = []
        self._slices: list[JournalledSlice] = []
        self._failed: list[FailedAttempt] = []
        self._end: RunEnd | None = None

    def take(self, rows: list[Any] | None) -> None:
        """Read one segment."""
        if rows is None:
            self._missing += 1
            return
        for row in rows:
            try:
                at = float(from_values(Finite, row.get("at"), name=""))
                value = from_values(ROWS[row["event"]], row, name="")
                self._take(value, at)
            except (CorruptOutputError, LookupError, TypeError):
                continue  # a row of another version
            self._last_at = max(self._last_at, at)

    def journal(self) -> RunJournal:
        """Return the journal."""
        return RunJournal(
            run=self._run,
            head=self._head,
            last_at=self._last_at,
            notes=tuple(self._notes),
            planned=self._planned,
            cluster=self._cluster,
            stages=tuple(self._counted_stages()),
            slices=tuple(self._slices),
            failed_attempts=tuple(self._failed),
            end=self._end,
            missing_segments=self._missing,
        )

    def _take(self, row: object, at: float) -> None:
        match row:
            case RunHead():
                self._head, self._cluster = row, None
            case ClusterSize():
                self._cluster = row
            case RunEnd():
                self._end = row
            case TimedNote():
                self._notes.append(row)
            case Planned():
                self._planned = row.stages
            case JournalledSlice():
                self._slices.append(row)
            case FailedAttempt():
                self._failed.append(row)
            case _:
                self._take_stage(row, at)

    def _take_stage(self, row: object, at: float) -> None:
        match row:
            case Stage():
                self._stages.append(row)
                self._points.append([])
                self._end = None  # the run continued
            case StageProgressRow():
                self._stages[-1] = replace(self._stages[-1], done=row.done, todo=row.todo)
                self._points[-1].append((at, row.done, row.todo))
            case StageEndRow():
                done = self._stages[-1].done if row.done is None else row.done
                seconds, size = row.seconds, row.num_bytes
                last = replace(self._stages[-1], seconds=seconds, done_bytes=size, done=done)
                self._stages[-1] = last

    def _counted_stages(self) -> Iterator[Stage]:
        """Yield the stages with the number of slices that ended in each."""
        by_stage: dict[str, list[JournalledSlice]] = defaultdict(list)
        for slice_ in self._slices:
            by_stage[slice_.stage].append(slice_)
        for number, stage in enumerate(self._stages):
            again = (later.at for later in self._stages[number + 1 :] if later.name == stage.name)
            until = next(again, math.inf)
            ended = [slice_ for slice_ in by_stage[stage.name] if stage.at <= slice_.at < until]
            if not ended:
                yield replace(stage, progress=tuple(self._points[number]))
                continue
            done = sum(slice_.slices for slice_ in ended)
            failed = sum(slice_.slices for slice_ in ended if slice_.error is not None)
            done_bytes = sum(slice_.num_bytes for slice_ in ended)
            yield replace(stage, done=done, failed=failed, done_bytes=done_bytes)
