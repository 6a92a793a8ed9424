"""The plan of a job as text for users."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.job.doctor.machine import Space
from nanotok_ray.units import few, format_bytes, format_estimate, quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEstimate:
    """The estimated time of a stage, with the fields of its JSON."""

    seconds: float | None
    """None: unknown."""
    from_: str
    """The origin of the estimate, for people."""
    tasks: int | None = None
    """The number of Ray tasks; None for a stage without slices, as the next two."""
    megabytes_per_second: float | None = None
    per_cpu: bool | None = None
    """Whether the rate is that of one CPU, and not of all CPUs of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The estimated time of a job, and the disk space that it needs."""

    cpus: int
    seconds: float | None
    """None: unknown."""
    stages: Mapping[str, StageEstimate]
    space: tuple[Space, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenPlan:
    """The result of writing plan.json."""

    status: str
    path: str


_INDENT = " " * 12
_LONG_SECONDS = 60.0

STAGES = ("count", "learn", "also", "tokenize")
"""The stages whose numbers a plan has, in the order of the job."""


def plan_text(
    values: Mapping[str, Any], estimate: Estimate | None, frozen: FrozenPlan | None
) -> str:
    """Return the plan as lines: output, sources, notes, changes, remaining work, estimates."""
    lines = [f"output      {resolved(values['output'])}"]
    for source in values["sources"]:
        lines += _source_lines(source)
    lines += [f"note        {note}" for note in values["notes"]]
    if values["changes"] is not None:
        lines += change_lines(values["changes"])
    lines += [stage_line(stage, values[stage]) for stage in STAGES if stage in values]
    if estimate is not None:
        lines += _estimate_lines(estimate)
        lines += [f"space       {space.text()}" for space in estimate.space]
    if frozen is not None:
        lines.append(_frozen_line(frozen, values["sources"]))
    return "\n".join(lines)


def resolved(location: str) -> str:
    """Return the location of a folder, followed by its absolute path if it is a relative path.

    >>> resolved("s3://bucket/out"), resolved("/data/out")
    ('s3://bucket/out', '/data/out')
    """
    if "://" in location or Path(location).is_absolute():
        return location
    return f"{location} ({Path(location).absolute()})"


def _source_lines(source: Mapping[str, Any]) -> Iterator[str]:
    documents = source["documents"]
    count = "documents unknown" if documents is None else quantity(documents, "document")
    stored, decoded = format_bytes(source["stored_bytes"]), format_bytes(source["bytes"])
    yield (
        f"source      {source['name']}: {quantity(source['files'], 'file')}, {stored} stored, "
        f"about {decoded} of text, {count}"
    )
    read_as = f"{source['format']}{_dialects(source['dialects'])}"
    yield f"{_INDENT}{read_as} in {resolved(source['root'])}, split {source['split']}"
    splits = ", ".join(f"{number:,} {split}" for split, number in source["slices"].items())
    groups = source["groups"]
    grouped = (
        f"; {quantity(groups['files'], 'small file')} in {quantity(groups['groups'], 'group')}"
    )
    largest = f"the largest {format_bytes(source['largest_slice'])}"
    yield f"{_INDENT}slices: {splits}; {largest}{grouped if groups['groups'] else ''}"
    if source["val"]["files"]:
        share = source["val"]["stored_bytes"] / max(1, source["stored_bytes"])
        listed = few(source["val"]["first"], source["val"]["files"])
        yield f"{_INDENT}val: {listed} ({share:.1%} of the bytes)"


def _dialects(files: Mapping[str, int]) -> str:
    """Return the names of the dialects, with the number of files of each if there are several.

    >>> _dialects({}), _dialects({"messages": 3}), _dialects({"gsm8k": 1, "messages": 3})
    ('', ' of messages', ' of gsm8k (1 file) and messages (3 files)')
    """
    if len(files) < 2:  # noqa: PLR2004 - one needs no number
        return "".join(f" of {name}" for name in files)
    counted = [f"{name} ({quantity(n, 'file')})" for name, n in files.items()]
    return f" of {', '.join(counted[:-1])} and {counted[-1]}"


def change_lines(changed: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that list the changes since the plan was frozen; no lines without changes."""
    slices = changed["slices"]
    for source in changed["sources"]:
        described = [f"{file['file']}: {file['why']}" for file in source["changed"]]
        parts = [
            f"{len(names):,} {word} ({few(names, len(names))})"
            for word, names in (
                ("added", source["added"]),
                ("changed", described),
                ("removed", source["removed"]),
            )
            if names
        ]
        yield f"changed     {source['source']}: {', '.join(parts)}"
    for change in changed["reading"]:
        was, current = (change[when] or "none" for when in ("before", "now"))
        yield f"changed     {change['source']}: {change['what']} is {current}, it was {was}"
    before, now = changed["slice_bytes"]
    if before != now:
        yield f"changed     limits.slice_bytes was {before:,}, is {now:,}: new slices are cut"
    if slices["new"] or slices["gone"]:
        yield (
            f"{_INDENT}slices: {slices['same']:,} as in the saved plan, {slices['new']:,} new, "
            f"{slices['gone']:,} removed"
        )


def stage_line(stage: str, numbers: Mapping[str, int]) -> str:
    """Return the line that describes a stage.

    >>> stage_line("count", {"todo": 2, "done": 1_000, "bytes": 5_000_000})
    'count       2 to do, 1,000 done, about 5.0 MB'
    """
    size = f", about {format_bytes(numbers['bytes'])}" if numbers.get("bytes") else ""
    return f"{stage:<11} {numbers['todo']:,} to do, {numbers['done']:,} done{size}"


def _estimate_lines(estimate: Estimate) -> Iterator[str]:
    if estimate.seconds is None:
        yield "estimate    time unknown, because there is no text to measure with; pass --rate"
        return
    if not estimate.stages:
        yield "estimate    nothing to count, learn or tokenize"
        return
    known = {
        name: stage.seconds for name, stage in estimate.stages.items() if stage.seconds is not None
    }
    parts = ", ".join(f"{name} {format_estimate(seconds)}" for name, seconds in known.items())
    cpus = quantity(estimate.cpus, "CPU")
    left_out = [name for name in estimate.stages if name not in known]
    without = f", {' and '.join(left_out)} not estimated" if left_out else ""
    yield f"estimate    {format_estimate(estimate.seconds)} on {cpus}: {parts}{without}"
    for name in known:
        stage = estimate.stages[name]
        rate = stage.megabytes_per_second
        if rate is not None:
            per = " a CPU" if stage.per_cpu else ""
            tasks = quantity(stage.tasks or 0, "Ray task")
            yield f"{_INDENT}{name} in {tasks} at {rate:,.1f} MB/s{per}: {stage.from_}"
        else:
            yield f"{_INDENT}{name}: {stage.from_}"
    yield from _idle_lines(estimate, known)


def _idle_lines(estimate: Estimate, known: Mapping[str, float]) -> Iterator[str]:
    """Yield advice if a stage of over a minute has fewer tasks than there are CPUs."""
    for name, seconds in known.items():
        tasks = estimate.stages[name].tasks or estimate.cpus
        if tasks < estimate.cpus and seconds > _LONG_SECONDS:
            yield (
                f"{_INDENT}{name} keeps at most {tasks:,} of {estimate.cpus:,} CPUs busy; "
                "a smaller limits.slice_bytes makes more slices"
            )


def _frozen_line(frozen: FrozenPlan, sources: Sequence[Mapping[str, Any]]) -> str:
    if frozen.status == "not frozen":
        return (
            f"not saved   the output is finished; a job replaces {frozen.path} when it changes "
            "the output"
        )
    if frozen.status == "in use":
        return f"not saved   another run has locked this output; {frozen.path} is its plan"
    before = ", as before" if frozen.status == "as before" else ""
    by_hash = any(source["split"].startswith("share:") for source in sources)
    later = "files that are added later belong to train"
    if by_hash:
        later += "; with split = share:S, the hash of each document decides"
    return f"saved       {frozen.path}{before}; {later}"
