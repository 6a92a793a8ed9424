"""The implementation of `nanotok status`: shows the state of the last run of an output."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from nanotok_ray.cli.options import is_recipe
from nanotok_ray.cli.printing import BAD_OUTPUT, field_line, shown
from nanotok_ray.cli.progress import UNITS, unit_of
from nanotok_ray.errors import NanotokError, TransientIOError
from nanotok_ray.formats import REPORT_PAGE_NAME, Flow, read_manifest, to_values
from nanotok_ray.formats.codec import omitted
from nanotok_ray.job.events import StageEnded
from nanotok_ray.job.forecast import Forecast, TimeLeft
from nanotok_ray.job.job_plan import decide, stage_plans
from nanotok_ray.job.journal import RunHead, RunJournal, Stage
from nanotok_ray.job.lease import Clock
from nanotok_ray.job.plan_text import StagePlan, stage_line
from nanotok_ray.job.status import FINISHED, RUNNING, WELL, RunStatus
from nanotok_ray.job.status import run_status as read_run_status
from nanotok_ray.recipe import load_recipe
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

MAX_FAILURES = 3
"""Limit of the listed failures."""

WATCH_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StageStatus:
    """The progress of a stage."""

    name: str
    state: str
    """done, running or stopped."""
    todo: int
    kept: int
    done: int
    failed: int
    bytes: int
    seconds: float | None
    megabytes_per_second: float | None
    seconds_left: float | None
    position: str
    whole_job: TimeLeft | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A failed slice, or a failed attempt at slices."""

    at: float
    name: str
    why: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputStatus:
    """The status of an output, with the fields of its JSON."""

    state: str
    why: str
    output: str
    published: bool
    run: int | None = None
    command: str | None = None
    started: str | None = None
    host: str | None = None
    pid: int | None = None
    ray_job: str | None = None
    version: str | None = None
    ray: str | None = None
    cpus: int | None = None
    nodes: int | None = None
    silent_seconds: float | None
    stages: tuple[StageStatus, ...] = ()
    failed_attempts: Mapping[str, int] = field(default_factory=dict)
    last_failed: tuple[Failure, ...] = ()
    missing_segments: int = 0
    report: str | None
    """The location of the report page."""
    documents: Flow | None = omitted()
    """Of a finished output, as the next two."""
    tokens: int | None = omitted()
    quarantined: Mapping[str, int] | None = omitted()
    plan: Mapping[str, StagePlan] | None = omitted()
    """The finished and the remaining work by stage, if a recipe is given."""


def status_lines(status: OutputStatus) -> Iterator[str]:
    """Yield the lines of one status."""
    yield field_line("output", status.output)
    yield field_line("state", f"{status.state}: {status.why}" if status.why else status.state)
    if status.command:
        yield field_line("run", _run(status))
    if status.silent_seconds is not None:
        yield field_line("updated", f"{status.silent_seconds:,.0f} s ago by this machine's clock")
    for stage in status.stages:
        yield field_line(stage.name, _stage(stage))
    yield from _failures(status)
    yield from _totals(status)
    if status.missing_segments:
        parts = quantity(status.missing_segments, "part")
        yield field_line("missing", f"unreadable: {parts} of the journal")
    if status.published and status.state != "finished":
        yield field_line("published", "a complete output exists; verify it with `nanotok verify`")
    if status.report:
        yield field_line("report", status.report)
    if status.state in _NEXT:
        yield field_line("next", _NEXT[status.state])


def _run(status: OutputStatus) -> str:
    number = "" if status.run is None else f"number {status.run}, "
    job = f", Ray job {status.ray_job}" if status.ray_job else ""
    cpus = ""
    if status.cpus:
        cpus = f", {quantity(status.cpus, 'CPU')} of {quantity(status.nodes or 0, 'node')}"
    who = f"host {status.host or '?'}, process {status.pid or '?'}{job}"
    return f"{number}{status.command} on {who}{cpus}, since {status.started or '?'}"


def _stage(stage: StageStatus) -> str:
    """Return the progress of a stage as a line.

    >>> print(_stage(StageStatus(name="count", state="stopped", todo=96, kept=4, done=12,
    ...     failed=1, bytes=5_000_000, seconds=10.0, megabytes_per_second=0.5,
    ...     seconds_left=None, position="1 of 5", whole_job=None)))
    12 of 96 slices (4 more done before), 5.0 MB, 0.5 MB/s, 1 failed, stopped there
    """
    parts = [f"{stage.done:,} of {stage.todo:,} {unit_of(stage.name)}"]
    if stage.position and stage.state == "running":
        parts[0] = f"stage {stage.position}: {parts[0]}"
    if stage.kept:
        parts[0] += f" ({stage.kept:,} more done before)"
    is_text = stage.name not in UNITS
    if stage.bytes and is_text:
        parts.append(f"{stage.bytes / 1e6:,.1f} MB")
    if stage.megabytes_per_second and is_text:
        parts.append(f"{stage.megabytes_per_second:,.1f} MB/s")
    if stage.failed:
        parts.append(f"{stage.failed:,} failed")
    return ", ".join([*parts, *_time(stage)])


def _time(stage: StageStatus) -> Iterator[str]:
    """Yield the duration of a stage, or estimates of the remaining time of stage and job."""
    if stage.state == "done" and stage.seconds is not None:
        yield f"done in {stage.seconds:,.1f} s"
    elif stage.state == "stopped":
        yield "stopped there"
    elif stage.seconds_left is not None:
        job = f" (whole job: {stage.whole_job.text()})" if stage.whole_job else ""
        yield f"{format_estimate(stage.seconds_left)} left{job}"


def _failures(status: OutputStatus) -> Iterator[str]:
    if status.failed_attempts:
        lines = [f"{number:,} as {cause}" for cause, number in status.failed_attempts.items()]
        yield field_line("attempts", f"failed: {', '.join(lines)}")
    for failure in status.last_failed:
        first = (failure.why or "").partition("\n")[0]
        yield f"  {_clock(failure.at)} {failure.name}: {first}"


def _totals(status: OutputStatus) -> Iterator[str]:
    if status.documents is not None:
        flow = to_values(status.documents).items()
        yield field_line("documents", ", ".join(f"{number:,} {name}" for name, number in flow))
    if status.tokens is not None:
        yield field_line("tokens", f"{status.tokens:,}")
    for reason, number in (status.quarantined or {}).items():
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


_HEAD = ("command", "started", "host", "pid", "ray_job", "version", "ray", "cpus", "nodes")


def output_status(out: Folder, status: RunStatus, *, now: float) -> OutputStatus:
    """Return the status of an output with the progress of its run."""
    head, journal = _head(status), status.journal
    values = OutputStatus(
        state=status.state,
        why=status.why,
        output=out.url,
        published=status.is_published,
        silent_seconds=None if status.silent is None else round(status.silent, 1),
        report=out.join(REPORT_PAGE_NAME) if out.exists(REPORT_PAGE_NAME) else None,
        **{name: getattr(head, name) for name in _HEAD},
    )
    if journal is not None:
        values = replace(
            values,
            run=journal.run,
            stages=tuple(_stages(journal, status, now=now)),
            failed_attempts=_causes(journal),
            last_failed=tuple(_last_failed(journal)),
            missing_segments=journal.missing_segments,
        )
    return _with_totals(values, out) if status.state == FINISHED else values


def _head(status: RunStatus) -> RunHead:
    """Return the process of the run: that of the journal, or else the holder of a valid lease."""
    head, lease, journal = RunHead(), status.lease, status.journal
    if lease is not None and not lease.is_released:
        holder = lease.holder
        head = RunHead(host=holder.host, pid=holder.pid, ray_job=holder.ray_job)
        if (stored := lease.lease) is not None:
            head = replace(head, command=stored.command, started=stored.taken)
    if journal is None:
        return head
    known = {name: getattr(journal.head, name) for name in _HEAD}
    head = replace(head, **{name: item for name, item in known.items() if item is not None})
    if status.state == RUNNING and journal.cluster is not None:
        head = replace(head, cpus=journal.cluster.cpus, nodes=journal.cluster.nodes)
    return head


def _causes(journal: RunJournal) -> Mapping[str, int]:
    """Return the failed attempts by cause, as counted at the end or so far."""
    if journal.end is not None and journal.end.failed_attempts:
        return journal.end.failed_attempts
    causes: Counter[str] = Counter()
    for attempt in journal.failed_attempts:
        causes[attempt.cause] += attempt.slices
    return dict(sorted(causes.items()))


def _last_failed(journal: RunJournal) -> Iterator[Failure]:
    failed = [(item.at, item.name, item.text) for item in journal.failed_attempts]
    failed += [
        (item.at, item.name, item.error) for item in journal.slices if item.error is not None
    ]
    failed.sort(key=lambda item: item[0])
    for at, name, why in failed[-MAX_FAILURES:]:
        yield Failure(at=at, name=name, why=why)


def _with_totals(values: OutputStatus, out: Folder) -> OutputStatus:
    """Add the totals of a published output, if its manifest can be read."""
    try:
        totals = read_manifest(out).totals["all"]
    except (OSError, NanotokError):
        return values
    return replace(
        values,
        documents=totals.documents,
        tokens=totals.tokens,
        quarantined=totals.quarantined,
    )


def _stages(journal: RunJournal, status: RunStatus, *, now: float) -> Iterator[StageStatus]:
    forecast = Forecast(list(journal.planned))
    for number, stage in enumerate(journal.stages):
        forecast.begin(stage.name, todo=stage.todo, num_bytes=stage.num_bytes)
        has_ended = stage.seconds is not None or stage.todo == 0
        is_last = number == len(journal.stages) - 1
        seconds = stage.seconds if has_ended else max(0.0, journal.last_at - stage.at)
        goes_on = is_last and status.state == RUNNING and not has_ended
        left = _left(journal, stage, now=now) if goes_on and not status.is_silent else None
        if has_ended and seconds:
            forecast.end(StageEnded(stage=stage.name, seconds=seconds, num_bytes=stage.done_bytes))
        rate = stage.done_bytes / seconds if seconds and stage.done_bytes else None
        yield StageStatus(
            name=stage.name,
            state="done" if has_ended else "running" if goes_on else "stopped",
            todo=stage.todo,
            kept=stage.kept,
            done=stage.done if stage.seconds is None else stage.done or stage.todo,
            failed=stage.failed,
            bytes=stage.done_bytes,
            seconds=None if seconds is None else round(seconds, 1),
            megabytes_per_second=None if rate is None else round(rate / 1e6, 3),
            seconds_left=left,
            position=forecast.position,
            whole_job=forecast.left(left, rate),
        )


def _left(journal: RunJournal, stage: Stage, *, now: float) -> float | None:
    """Estimate the remaining time of a stage, by bytes if it has slices, or return None.

    The journal is written every few seconds: an estimate that has since run out is dropped.
    """
    if stage.progress:
        at, done, todo = stage.progress[-1]
    else:
        slices = [
            item for item in journal.slices if item.stage == stage.name and item.at >= stage.at
        ]
        at = max((item.at for item in slices), default=0.0)
        done, todo = sum(item.estimate for item in slices), stage.num_bytes
        cpus = journal.head.cpus
        if cpus is not None and stage.done < min(cpus, stage.todo / 2):
            return None  # less than one slice per CPU is done
    if done <= 0 or at <= stage.at:
        return None
    left = (at - stage.at) * max(0, todo - done) / done - max(0.0, now - at)
    return round(left, 1) if left > 0 else None


def run_status(arguments: "Arguments") -> int:
    """Show the status and return the exit code."""
    console, recipe = arguments.console, None
    if is_recipe(arguments.location):
        recipe = load_recipe(arguments.location)
    output = arguments.location if recipe is None else recipe.output.path
    space = [""] if arguments.watch else []
    status = read_status(
        output, watch=arguments.watch, show=lambda look: console.text(*status_lines(look), *space)
    )
    if recipe is not None:
        plan = stage_plans(decide(recipe))
        console.text(*(stage_line(name, stage) for name, stage in plan.items()))
        status = replace(status, plan=plan)
    console.result(status)
    return 0 if status.state in WELL else BAD_OUTPUT


def read_status(
    output: str,
    *,
    watch: bool = False,
    show: Callable[[OutputStatus], None],
    clock: Clock | None = None,
) -> OutputStatus:
    """Read the status of an output, with `watch` repeatedly until the run has ended.

    Args:
        output: the folder or URL.
        watch: whether to repeat until the run has ended.
        show: called with the status each time.
        clock: the clock; None: that of this machine.

    Returns:
        The last status.

    Raises:
        TransientIOError: The storage does not answer; while watching, raised only the first time.
    """
    clock = clock or Clock()
    status = _read_once(output, clock.wall())
    show(status)
    while watch and status.state == RUNNING:
        clock.sleep(WATCH_SECONDS)
        try:
            status = _read_once(output, clock.wall())
        except TransientIOError as error:
            print(f"nanotok: {shown(str(error))}", file=sys.stderr)
            continue
        show(status)
    return status


def _read_once(output: str, now: float) -> OutputStatus:
    out = Folder(output)
    return output_status(out, read_run_status(out, now=now), now=now)
