"""The journal of a run in OUT/run/journal: its names and values, and the reader."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from nanotok_ray.formats import MAX_JSON_BYTES
from nanotok_ray.job.events import AttemptFailed, Note, PlannedStage, SliceEnded, StageStarted
from nanotok_ray.storage import Folder
from nanotok_ray.units import without_secrets

DONE, FAILED, INTERRUPTED, TERMINATED = ENDS = ("done", "failed", "interrupted", "terminated")
"""The ways in which a run can end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedNote(Note):
    """A note, with its time."""

    at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage(StageStarted):
    """A stage of the run. A stage that ran twice (count with max_chars) is listed twice."""

    at: float
    """The time at which it started."""
    done: int = 0
    failed: int = 0
    done_bytes: int = 0
    progress: tuple[tuple[float, int, int], ...] = ()
    """For stages without slices: time, done and todo of some moments."""
    seconds: float | None = None
    """The duration in seconds; None if it has not ended."""

    @property
    def name(self) -> str:
        """The name of the stage in the journal."""
        return self.stage

    @property
    def kept(self) -> int:
        """The number of slices that were finished before, `kept` in the journal."""
        return self.num_done


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalledSlice(SliceEnded):
    """A slice (or group of count files, or unit of an export) that ended in this run."""

    at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt(AttemptFailed):
    """An attempt that failed and may have been tried again."""

    at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunJournal:
    """The content of the journal of a run."""

    run: int
    head: Mapping[str, Any]
    """command, arguments (the process's own command line), started, host, pid, ray_job, version,
    core, python, ray, cpus, nodes, recipe (its text), and work (URL of the work folder)."""
    last_at: float
    """The time of the last event."""
    notes: tuple[TimedNote, ...] = ()
    planned: tuple[PlannedStage, ...] = ()
    """The planned stages of the run; empty in journals of earlier versions."""
    cluster: Mapping[str, int] = field(default_factory=dict)
    """`cpus` and `nodes` when they were last seen to differ from those of the head."""
    stages: tuple[Stage, ...] = ()
    slices: tuple[JournalledSlice, ...] = ()
    failed_attempts: tuple[FailedAttempt, ...] = ()
    end: Mapping[str, Any] | None = field(default=None)
    """status (one of ENDS), error and seconds; None if the run has not ended."""
    missing_segments: int = 0
    """The number of segments between others that are missing or cannot be read."""


JOURNAL_FOLDER = "run/journal"
JOURNAL_FORMAT = "nanotok-journal 1"

_NAME = re.compile(rf"{JOURNAL_FOLDER}/(\d{{6,18}})-(\d{{6,18}})\.jsonl")


def segment_name(run: int, segment: int) -> str:
    """Return the path of a segment, relative to the output folder.

    >>> segment_name(17, 2)
    'run/journal/000017-000002.jsonl'
    """
    return f"{JOURNAL_FOLDER}/{run:06d}-{segment:06d}.jsonl"


def runs_in(out: Folder) -> dict[int, list[int]]:
    """Return the numbers of the segments of each run, all in ascending order."""
    found: dict[int, list[int]] = {}
    for name in out.list(f"{JOURNAL_FOLDER}/"):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.setdefault(int(match[1]), []).append(int(match[2]))
    return {run: sorted(found[run]) for run in sorted(found)}


READERS = 16
"""The number of segments to read in parallel, because each is a small object."""

MAX_NUMBER = 2**63
"""All numbers are below it, which excludes NaN."""

_Row = TypeVar("_Row", TimedNote, Stage, JournalledSlice, FailedAttempt)
_TYPES: dict[Any, tuple[type, ...]] = {
    float: (int, float),
    int: (int,),
    str: (str,),
    str | None: (str, type(None)),
}
_ALIASES = {("stage", "stage"): "name", ("stage", "num_done"): "kept"}
"""The names in the journal of fields with another name, by event and field."""

_FIELDS: dict[type[Any], tuple[tuple[str, str, Any], ...]] = {
    kind: tuple(
        (_ALIASES.get((event, own.name), own.name), own.name, own.type) for own in fields(kind)
    )
    for event, kinds in {
        "note": (Note, TimedNote),
        "stage": (StageStarted, Stage),
        "slice": (SliceEnded, JournalledSlice),
        "attempt": (AttemptFailed, FailedAttempt),
    }.items()
    for kind in kinds
}
"""The name in the journal, the name and the type of each field. They are cached, because a journal
can have 200,000 slices."""

_TEXTS = {"text", "error"}
_LEFT_OUT = {"error": None, "slices": 1}
"""Default values, which rows omit."""

MAX_CHARS = 2000


def journal_text(text: str) -> str:
    """Return a text for the journal, without secrets and cut to MAX_CHARS."""
    return without_secrets(text)[:MAX_CHARS]


def row_of(
    kind: str, event: Note | StageStarted | SliceEnded | AttemptFailed, at: float
) -> dict[str, Any]:
    """Return the row of an event: its kind, its time and its fields."""
    row: dict[str, Any] = {"event": kind, "at": at}
    for name, own, _ in _FIELDS[type(event)]:
        value = getattr(event, own)
        if own in _TEXTS and value is not None:
            value = journal_text(value)
        if kind == "attempt" or own not in _LEFT_OUT or value != _LEFT_OUT[own]:
            row[name] = round(value, 3) if isinstance(value, float) else value
    return row


def read_journal(out: Folder, run: int | None = None) -> RunJournal | None:
    """Read the journal of a run.

    Args:
        out: The output folder.
        run: The number of the run; None: the last one.

    Returns:
        The journal, or None if it does not exist.
    """
    found = runs_in(out)
    number = max(found, default=0) if run is None else run
    if number not in found:
        return None
    segments = found[number]
    reading = _Reading(number, missing=max(segments) + 1 - len(segments))
    names = [segment_name(number, segment) for segment in segments]
    for lines in _segments(out, names):
        reading.take(lines)
    return reading.journal()


def _segments(out: Folder, names: Sequence[str]) -> Iterator[list[dict[str, Any]] | None]:
    with ThreadPoolExecutor(min(READERS, len(names))) as pool:
        yield from pool.map(lambda name: _lines(out, name), names)


def _lines(out: Folder, name: str) -> list[dict[str, Any]] | None:
    """Return the events of a segment, or None if it cannot be read."""
    try:
        text = out.read_bytes(name, limit=MAX_JSON_BYTES).decode("utf-8")
        found = [json.loads(line) for line in text.splitlines()]
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if all(isinstance(event, dict) for event in found) else None


class _Reading:
    """The state of reading a journal."""

    def __init__(self, run: int, *, missing: int) -> None:
        self._run = run
        self._head: dict[str, Any] = {}
        self._last_at = 0.0
        self._missing = missing
        self._notes: list[TimedNote] = []
        self._planned: tuple[PlannedStage, ...] = ()
        self._cluster: dict[str, int] = {}
        self._stages: list[Stage] = []
        self._points: list[list[tuple[float, int, int]]] = []
        self._slices: list[JournalledSlice] = []
        self._failed: list[FailedAttempt] = []
        self._end: dict[str, Any] | None = None

    def take(self, lines: list[dict[str, Any]] | None) -> None:
        """Read one segment."""
        if lines is None:
            self._missing += 1
            return
        for line in lines:
            event = dict(line)
            kind = event.pop("event", None)
            try:
                at = float(_checked("at", event.get("at"), float))
                self._take(kind, event)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError):
                continue  # an event of another version
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

    def _take(self, kind: object, event: dict[str, Any]) -> None:
        match kind:
            case "run":
                self._head, self._cluster = event, {}
            case "cluster":
                names = ("cpus", "nodes")
                self._cluster = {name: _checked(name, event[name], int) for name in names}
            case "end":
                self._end = event
            case "note":
                self._notes.append(_row(TimedNote, event))
            case "plan":
                self._planned = tuple(_planned(stage) for stage in event["stages"])
            case "slice":
                self._slices.append(_row(JournalledSlice, event))
            case "attempt":
                self._failed.append(_row(FailedAttempt, event))
            case _:
                self._take_stage(kind, event)

    def _take_stage(self, kind: object, event: dict[str, Any]) -> None:
        match kind:
            case "stage":
                self._stages.append(_row(Stage, event))
                self._points.append([])
                self._end = None  # the run continued
            case "progress":
                done, todo = (_checked(name, event[name], int) for name in ("done", "todo"))
                self._stages[-1] = replace(self._stages[-1], done=done, todo=todo)
                self._points[-1].append((event["at"], done, todo))
            case "stage end":
                seconds = _checked("seconds", event["seconds"], float)
                size = _checked("num_bytes", event["num_bytes"], int)
                done = _checked("done", event.get("done", self._stages[-1].done), int)
                ended = replace(self._stages[-1], seconds=seconds, done_bytes=size, done=done)
                self._stages[-1] = ended

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


def _row(kind: type[_Row], event: dict[str, Any]) -> _Row:
    """Return a row after checking the types of its values; unknown keys are ignored.

    Raises:
        TypeError, ValueError: A value is missing or has another type.
    """
    given = [(name, own, wanted) for name, own, wanted in _FIELDS[kind] if name in event]
    return kind(**{own: _checked(name, event[name], wanted) for name, own, wanted in given})


def _planned(values: Mapping[str, Any]) -> PlannedStage:
    """Return a planned stage; raises the same errors as `_row`."""
    seconds = values["seconds"]
    return PlannedStage(
        name=_checked("name", values["name"], str),
        num_bytes=_checked("num_bytes", values["num_bytes"], int),
        seconds=None if seconds is None else float(_checked("seconds", seconds, float)),
    )


def _checked(name: str, value: Any, wanted: Any) -> Any:  # noqa: ANN401 - as JSON gives it
    kinds = _TYPES.get(wanted, ())
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{name} is not of type {wanted}")
    if isinstance(value, int | float) and not -MAX_NUMBER < value < MAX_NUMBER:
        raise ValueError(f"{name} is outside of the range of 64 bits")
    return value
