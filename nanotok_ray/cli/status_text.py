"""How an output stands, in lines for people. Takes the values of `status_values`, no files."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from nanotok_ray.cli.stage_progress import UNITS, unit_of
from nanotok_ray.job.outlook_text import duration

_NEXT = {
    "nothing": "is the path right? no job has written anything there",
    "never run": "a plan is frozen; run `nanotok prepare RECIPE`",
    "dead": "run the same command again: it goes on where this one stopped",
    "failed": "mend what the error names and run the same command again: what is done is kept",
    "interrupted": "run the same command again: it goes on where this one stopped",
    "terminated": "run the same command again: it goes on where this one stopped",
    "unfinished": "run `nanotok prepare RECIPE`: it goes on from what is there",
    "trained": "run `nanotok tokenize RECIPE` to tokenize the corpus",
}


def status_lines(own: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines of one look."""
    yield _line("output", own["output"])
    yield _line("state", f"{own['state']}{_reason(own)}")
    if own["command"]:
        yield _line("run", _run(own))
    if own["silent_seconds"] is not None:
        yield _line("heard", f"{own['silent_seconds']:,.0f} s ago by this machine's clock")
    for stage in own["stages"]:
        yield _line(stage["name"], _stage(stage))
    yield from _failures(own)
    yield from _totals(own)
    if own["missing_segments"]:
        yield _line("missing", f"{own['missing_segments']:,} parts of the journal cannot be read")
    if own["published"] and own["state"] != "finished":
        yield _line(
            "published", "an output that is whole is there; verify it with `nanotok verify`"
        )
    if own["report"]:
        yield _line("report", own["report"])
    if own["state"] in _NEXT:
        yield _line("next", _NEXT[own["state"]])


def _line(name: str, text: str) -> str:
    return f"{name:<11} {text}"


def _reason(own: Mapping[str, Any]) -> str:
    return f": {own['why']}" if own["why"] else ""


def _run(own: Mapping[str, Any]) -> str:
    number = "" if own["run"] is None else f"number {own['run']}, "
    job = f", Ray job {own['ray_job']}" if own["ray_job"] else ""
    nodes = "1 node" if own["nodes"] == 1 else f"{own['nodes']} nodes"
    noun = "CPU" if own["cpus"] == 1 else "CPUs"
    cpus = f", {own['cpus']} {noun} of {nodes}" if own["cpus"] else ""
    who = f"host {own['host'] or '?'}, process {own['pid'] or '?'}{job}"
    return f"{number}{own['command']} on {who}{cpus}, since {own['started'] or '?'}"


def _stage(own: Mapping[str, Any]) -> str:
    """Say how far a stage is.

    >>> _stage({"name": "count", "state": "running", "todo": 96, "kept": 4, "done": 12, "failed": 1,
    ...     "bytes": 5_000_000, "seconds": 10.0, "megabytes_per_second": 0.5, "seconds_left": 70.2})
    '12 of 96 slices (4 more done before), 5.0 MB, 0.5 MB/s, 1 failed, about 1 min 10 s left'
    """
    parts = [f"{own['done']:,} of {own['todo']:,} {unit_of(own['name'])}"]
    if own["kept"]:
        parts[0] += f" ({own['kept']:,} more done before)"
    is_text = own["name"] not in UNITS
    if own["bytes"] and is_text:
        parts.append(f"{own['bytes'] / 1e6:,.1f} MB")
    if own["megabytes_per_second"] and is_text:
        parts.append(f"{own['megabytes_per_second']:,.1f} MB/s")
    if own["failed"]:
        parts.append(f"{own['failed']:,} failed")
    if own["state"] == "done" and own["seconds"] is not None:
        parts.append(f"done in {own['seconds']:,.1f} s")
    elif own["state"] == "stopped":
        parts.append("stopped there")
    elif own["seconds_left"] is not None:
        parts.append(f"{duration(own['seconds_left'])} left")
    return ", ".join(parts)


def _failures(own: Mapping[str, Any]) -> Iterator[str]:
    if own["failed_attempts"]:
        told = [f"{number:,} as {cause}" for cause, number in own["failed_attempts"].items()]
        yield _line("attempts", f"failed: {', '.join(told)}")
    for each in own["last_failed"]:
        first = each["why"].partition("\n")[0]
        yield f"  {_clock(each['at'])} {each['name']}: {first}"


def _totals(own: Mapping[str, Any]) -> Iterator[str]:
    if own.get("documents"):
        told = ", ".join(f"{number:,} {name}" for name, number in own["documents"].items())
        yield _line("documents", told)
    if own.get("tokens") is not None:
        yield _line("tokens", f"{own['tokens']:,}")
    for reason, number in own.get("quarantined", {}).items():
        yield f"  quarantined {number:,}: {reason}"


def _clock(at: float) -> str:
    """Give the time of day, UTC.

    >>> _clock(1_764_000_000.0)
    '16:00:00'
    """
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "?"
