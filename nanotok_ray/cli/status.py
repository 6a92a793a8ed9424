"""The implementation of `nanotok status`: shows the state of the last run of an output."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from nanotok_ray.cli.options import is_recipe
from nanotok_ray.cli.printing import BAD_OUTPUT, shown
from nanotok_ray.cli.progress import UNITS, unit_of
from nanotok_ray.errors import NanotokError, TransientIOError
from nanotok_ray.formats import MANIFEST_NAME, MAX_MANIFEST_BYTES, REPORT_PAGE_NAME
from nanotok_ray.job import (
    FINISHED,
    RUNNING,
    STAGES,
    WELL,
    FailedAttempt,
    Forecast,
    JournalledSlice,
    RunJournal,
    RunStatus,
    Stage,
    StageEnded,
    TimeLeft,
    stage_line,
)
from nanotok_ray.job import run_status as read_run_status
from nanotok_ray.job.decide import decide
from nanotok_ray.recipe import Recipe, load_recipe
from nanotok_ray.storage import Folder
from nanotok_ray.units import format_estimate, quantity

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments

_NEXT = {
    "nothing": "check the path: no job has written to this folder",
    "never run": "a plan is saved; run `nanotok prepare RECIPE`",
    "dead": "run the same command again: it resumes where this one stopped",
    "failed": "fix the cause of the error and run the same command again: finished work is kept",
    "interrupted": "run the same command again: it resumes where this one stopped",
    "terminated": "run the same command again: it resumes where this one stopped",
    "unfinished": "run `nanotok prepare RECIPE`: it resumes from the existing files",
    "trained": "run `nanotok tokenize RECIPE` to tokenize the corpus",
}


def status_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one status."""
    yield _line("output", values["output"])
    yield _line("state", f"{values['state']}{_reason(values)}")
    if values["command"]:
        yield _line("run", _run(values))
    if values["silent_seconds"] is not None:
        yield _line("updated", f"{values['silent_seconds']:,.0f} s ago by this machine's clock")
    for stage in values["stages"]:
        yield _line(stage["name"], _stage(stage))
    yield from _failures(values)
    yield from _totals(values)
    if values["missing_segments"]:
        yield _line(
            "missing", f"unreadable: {quantity(values['missing_segments'], 'part')} of the journal"
        )
    if values["published"] and values["state"] != "finished":
        yield _line("published", "a complete output exists; verify it with `nanotok verify`")
    if values["report"]:
        yield _line("report", values["report"])
    if values["state"] in _NEXT:
        yield _line("next", _NEXT[values["state"]])


def _line(name: str, text: str) -> str:
    return f"{name:<11} {text}"


def _reason(values: Mapping[str, Any]) -> str:
    return f": {values['why']}" if values["why"] else ""


def _run(values: Mapping[str, Any]) -> str:
    number = "" if values["run"] is None else f"number {values['run']}, "
    job = f", Ray job {values['ray_job']}" if values["ray_job"] else ""
    cpus = ""
    if values["cpus"]:
        cpus = f", {quantity(values['cpus'], 'CPU')} of {quantity(values['nodes'] or 0, 'node')}"
    who = f"host {values['host'] or '?'}, process {values['pid'] or '?'}{job}"
    return f"{number}{values['command']} on {who}{cpus}, since {values['started'] or '?'}"


def _stage(values: Mapping[str, Any]) -> str:
    """Return the progress of a stage as a line.

    >>> print(_stage({"name": "count", "state": "stopped", "todo": 96, "kept": 4, "done": 12,
    ...     "failed": 1, "bytes": 5_000_000, "seconds": 10.0, "megabytes_per_second": 0.5,
    ...     "seconds_left": None, "position": "1 of 5", "whole_job": None}))
    12 of 96 slices (4 more done before), 5.0 MB, 0.5 MB/s, 1 failed, stopped there
    """
    parts = [f"{values['done']:,} of {values['todo']:,} {unit_of(values['name'])}"]
    if values["position"] and values["state"] == "running":
        parts[0] = f"stage {values['position']}: {parts[0]}"
    if values["kept"]:
        parts[0] += f" ({values['kept']:,} more done before)"
    is_text = values["name"] not in UNITS
    if values["bytes"] and is_text:
        parts.append(f"{values['bytes'] / 1e6:,.1f} MB")
    if values["megabytes_per_second"] and is_text:
        parts.append(f"{values['megabytes_per_second']:,.1f} MB/s")
    if values["failed"]:
        parts.append(f"{values['failed']:,} failed")
    return ", ".join([*parts, *_time(values)])


def _time(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the duration of a stage, or estimates of the remaining time of stage and job."""
    if values["state"] == "done" and values["seconds"] is not None:
        yield f"done in {values['seconds']:,.1f} s"
    elif values["state"] == "stopped":
        yield "stopped there"
    elif values["seconds_left"] is not None:
        whole = values["whole_job"]
        job = f" (whole job: {TimeLeft(**whole).text()})" if whole else ""
        yield f"{format_estimate(values['seconds_left'])} left{job}"


def _failures(values: Mapping[str, Any]) -> Iterator[str]:
    if values["failed_attempts"]:
        lines = [f"{number:,} as {cause}" for cause, number in values["failed_attempts"].items()]
        yield _line("attempts", f"failed: {', '.join(lines)}")
    for item in values["last_failed"]:
        first = item["why"].partition("\n")[0]
        yield f"  {_clock(item['at'])} {item['name']}: {first}"


def _totals(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("documents"):
        text = ", ".join(f"{number:,} {name}" for name, number in values["documents"].items())
        yield _line("documents", text)
    if values.get("tokens") is not None:
        yield _line("tokens", f"{values['tokens']:,}")
    for reason, number in values.get("quarantined", {}).items():
        yield f"  quarantined {number:,}: {reason}"


def _clock(at: float) -> str:
    """Return the time of day in UTC.

    >>> _clock(1_764_000_000.0)
    '16:00:00'
    """
    try:
        return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"


MAX_FAILURES = 3

_HEAD = ("command", "host", "pid", "ray_job", "started", "version", "ray", "cpus", "nodes")


def status_values(out: Folder, status: RunStatus, *, now: float) -> dict[str, Any]:
    """Return the values of one status."""
    journal = status.journal
    values: dict[str, Any] = {
        "state": status.state,
        "why": status.why,
        "output": out.url,
        "published": status.is_published,
        "run": None if journal is None else journal.run,
        **_head(status),
        "silent_seconds": None if status.silent is None else round(status.silent, 1),
        "stages": [],
        "failed_attempts": {},
        "last_failed": [],
        "missing_segments": 0 if journal is None else journal.missing_segments,
        "report": out.join(REPORT_PAGE_NAME) if out.exists(REPORT_PAGE_NAME) else None,
    }
    if journal is not None:
        values |= _of_journal(journal, status, now=now)
    if status.state == FINISHED:
        values |= _published(out)
    return values


def _head(status: RunStatus) -> dict[str, Any]:
    """Return the process of the run: the holder of a valid lease, otherwise that of the journal."""
    head = dict(status.journal.head) if status.journal is not None else {}
    lease = status.lease
    if lease is not None and not lease.is_released:
        stored, holder = lease.lease, lease.holder
        values: dict[str, Any] = {
            "command": stored and stored.command,
            "started": stored and stored.taken,
        }
        values |= {"host": holder.host, "pid": holder.pid, "ray_job": holder.ray_job}
        head = {**values, **head}
    if status.journal is not None and status.state == RUNNING:
        head |= status.journal.cluster
    selected = {name: head.get(name) for name in _HEAD}
    return {
        name: values if isinstance(values, str | int) else None for name, values in selected.items()
    }


def _of_journal(journal: RunJournal, status: RunStatus, *, now: float) -> dict[str, Any]:
    causes: Counter[str] = Counter()
    for attempt in journal.failed_attempts:
        causes[attempt.cause] += attempt.slices
    counted = (journal.end or {}).get("failed_attempts")
    last = [attempt for attempt in journal.slices if attempt.error is not None]
    failed: list[FailedAttempt | JournalledSlice] = [*journal.failed_attempts, *last]
    failed.sort(key=lambda attempt: attempt.at)
    return {
        "stages": list(_stages(journal, status, now=now)),
        "failed_attempts": _counts(counted) or dict(sorted(causes.items())),
        "last_failed": [
            {
                "at": attempt.at,
                "name": attempt.name,
                "why": attempt.error if isinstance(attempt, JournalledSlice) else attempt.text,
            }
            for attempt in failed[-MAX_FAILURES:]
        ],
    }


def _stages(journal: RunJournal, status: RunStatus, *, now: float) -> Iterator[dict[str, Any]]:
    forecast = Forecast(list(journal.planned))
    for number, stage in enumerate(journal.stages):
        forecast.begin(stage)
        has_ended = stage.seconds is not None or stage.todo == 0
        is_last = number == len(journal.stages) - 1
        seconds = stage.seconds if has_ended else max(0.0, journal.last_at - stage.at)
        goes_on = is_last and status.state == RUNNING and not has_ended
        left = _left(journal, stage, now=now) if goes_on and not status.is_silent else None
        if has_ended and seconds:
            forecast.end(StageEnded(stage=stage.name, seconds=seconds, num_bytes=stage.done_bytes))
        rate = stage.done_bytes / seconds if seconds and stage.done_bytes else None
        whole = forecast.left(left, rate)
        yield {
            "name": stage.name,
            "state": "done" if has_ended else "running" if goes_on else "stopped",
            "todo": stage.todo,
            "kept": stage.kept,
            "done": stage.done if stage.seconds is None else stage.done or stage.todo,
            "failed": stage.failed,
            "bytes": stage.done_bytes,
            "seconds": None if seconds is None else round(seconds, 1),
            "megabytes_per_second": _rate(stage.done_bytes, seconds),
            "seconds_left": left,
            "position": forecast.position,
            "whole_job": None if whole is None else asdict(whole),
        }


def _rate(size: int, seconds: float | None) -> float | None:
    return round(size / 1e6 / seconds, 3) if size and seconds else None


def _left(journal: RunJournal, stage: Stage, *, now: float) -> float | None:
    """Estimate the remaining time of a stage, by bytes if it has slices, or return None.

    The journal is written every few seconds: an estimate that has since run out is dropped.
    """
    if stage.progress:
        at, done, todo = stage.progress[-1]
    else:
        slices = [
            slice_
            for slice_ in journal.slices
            if slice_.stage == stage.name and slice_.at >= stage.at
        ]
        at = max((slice_.at for slice_ in slices), default=0.0)
        done, todo = sum(slice_.estimate for slice_ in slices), stage.num_bytes
        cpus = journal.head.get("cpus")
        if isinstance(cpus, int) and stage.done < min(cpus, stage.todo / 2):
            return None  # less than one slice per CPU is done
    if done <= 0 or at <= stage.at:
        return None
    left = (at - stage.at) * max(0, todo - done) / done - max(0.0, now - at)
    return round(left, 1) if left > 0 else None


def _published(out: Folder) -> dict[str, Any]:
    """Return the totals of a published output; empty if its manifest has none."""
    try:
        data = out.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES)
        totals = json.loads(data)["totals"]["all"]
        documents, tokens = totals["documents"], totals["tokens"]
        quarantined = totals["quarantined"]
    except (OSError, NanotokError, ValueError, RecursionError, KeyError, TypeError):
        return {}
    return {
        "documents": _counts(documents),
        "tokens": tokens if isinstance(tokens, int) else None,
        "quarantined": _counts(quarantined),
    }


def _counts(values: object) -> dict[str, int]:
    if not isinstance(values, dict):
        return {}
    return {str(name): value for name, value in values.items() if isinstance(value, int)}


WATCH_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """The time in seconds since 1970, and waiting; replaced in tests."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def run_status(arguments: "Arguments") -> int:
    """Show the status and return the exit code."""
    console, recipe = arguments.console, None
    if is_recipe(arguments.location):
        recipe = load_recipe(arguments.location)
    output = arguments.location if recipe is None else recipe.output.path
    space = [""] if arguments.watch else []
    values = read_status(
        output, watch=arguments.watch, show=lambda look: console.text(*status_lines(look), *space)
    )
    if recipe is not None:
        values["plan"] = stages = _plan(recipe)
        console.text(*(stage_line(stage, numbers) for stage, numbers in stages.items()))
    console.result(values)
    return 0 if values["state"] in WELL else BAD_OUTPUT


def _plan(recipe: Recipe) -> dict[str, Any]:
    """Return the finished and the remaining work of `prepare`, by stage."""
    values = decide(recipe).values
    return {stage: values[stage] for stage in STAGES if stage in values}


def read_status(
    output: str,
    *,
    watch: bool = False,
    show: Callable[[dict[str, Any]], None],
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Read the status of an output, with `watch` repeatedly until the run has ended.

    Args:
        output: the folder or URL.
        watch: whether to repeat until the run has ended.
        show: called with the values each time.
        clock: the clock; None: that of this machine.

    Returns:
        The last values.

    Raises:
        TransientIOError: The storage does not answer; while watching, raised only the first time.
    """
    clock = clock or Clock()
    values = _read_once(output, clock.now())
    show(values)
    while watch and values["state"] == "running":
        clock.sleep(WATCH_SECONDS)
        try:
            values = _read_once(output, clock.now())
        except TransientIOError as error:
            print(f"nanotok: {shown(str(error))}", file=sys.stderr)
            continue
        show(values)
    return values


def _read_once(output: str, now: float) -> dict[str, Any]:
    out = Folder(output)
    return status_values(out, read_run_status(out, now=now), now=now)
