"""Stages, sources and stragglers of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from nanotok_ray.job.journal import JournalledSlice, RunJournal, Stage
from nanotok_ray.report import numbers
from nanotok_ray.report.facts import Facts
from nanotok_ray.report.markup import (
    Part,
    bar,
    code,
    escaped,
    heading,
    legend,
    note,
    stage_kind,
    table,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    name: str
    seconds: float
    num_bytes: float
    done: int | None
    num_done: int | None
    failed: int | None
    has_ended: bool = True


def stages(facts: Facts) -> str:
    """Return the table of stages with bars of time; nothing if none is known."""
    lines = [*_lines(facts)]
    if not lines:
        return ""
    longest = max(line.seconds for line in lines)
    total = sum(line.seconds for line in lines)
    rows = [
        (
            escaped(line.name, 60),
            bar(
                [Part(kind=stage_kind(line.name), value=line.seconds, title=line.name)], of=longest
            ),
            numbers.seconds(line.seconds) if line.has_ended else "did not end",
            numbers.share(line.seconds, total),
            numbers.rate(line.num_bytes, line.seconds),
            _count(line.done),
            _count(line.num_done),
            _count(line.failed),
        )
        for line in lines
    ]
    heads = ("stage", "", "time", "share", "rate", "done", "kept", "failed")
    return table(heads, rows, texts=2)


def _count(number: int | None) -> str:
    return "\u2013" if number is None else f"{number:,}"


def _lines(facts: Facts) -> Iterator[_Line]:
    if facts.worked is not None and facts.worked.stages:
        journalled = facts.worked.stages
        ends = [*(stage.at for stage in journalled[1:]), facts.worked.last_at]
        yield from map(_of_journal, journalled, ends)
    elif facts.summary is not None:
        yield from (
            _of_summary(name, values) for name, values in facts.summary.get("stages", {}).items()
        )


def _of_journal(stage: Stage, end: float) -> _Line:
    took = max(end - stage.at, 0.0) if stage.seconds is None else stage.seconds
    return _Line(
        name=stage.name,
        seconds=took,
        num_bytes=stage.done_bytes,
        done=_done(stage),
        num_done=stage.kept,
        failed=stage.failed,
        has_ended=stage.seconds is not None,
    )


def _done(stage: Stage) -> int | None:
    """Return what was done; progress is reported now and then, so the last may be missing."""
    if stage.seconds is None:
        return stage.done
    return stage.todo if stage.progress else stage.done or (None if stage.todo else 0)


def _of_summary(name: str, values: dict[str, Any]) -> _Line:
    return _Line(
        name=name,
        seconds=values["seconds"],
        num_bytes=values["bytes"],
        done=None,
        num_done=None,
        failed=None,
    )


_SPLITS: Final = {"train": "c1", "val": "c8"}


def sources(facts: Facts) -> str:
    """Return the table by source and split; nothing without a manifest."""
    if facts.manifest is None:
        return ""
    by_source = facts.sources
    everything = facts.manifest["totals"]["all"]
    highest = max((_per_token(totals) for totals in by_source.values()), default=0.0)
    tokens = everything["tokens"]
    rows = []
    for name, totals in [
        *by_source.items(),
        *([("all", everything)] if len(by_source) > 1 else []),
    ]:
        source, _, split = name.rpartition("/")
        is_sum = name == "all"
        kind = "c6" if is_sum else _SPLITS[split]
        ratio = _per_token(totals)
        part = Part(kind=kind, value=ratio, title=f"{ratio:.3f} bytes per token")
        rows.append(
            (
                "all" if is_sum else escaped(name, 80),
                bar([part], of=highest),
                numbers.ratio(totals["text_bytes"], totals["tokens"]),
                f"{totals['documents']['out']:,}",
                numbers.num_bytes(totals["text_bytes"]),
                f"{totals['tokens']:,}",
                numbers.share(totals["tokens"], tokens),
                "" if is_sum else escaped(facts.manifest["kinds"][source], 40),
            )
        )
    heads = (
        *("source", "bytes per token", "", "documents"),
        *("text", "tokens", "share of tokens", "kind"),
    )
    keys = {
        split: kind
        for split, kind in _SPLITS.items()
        if any(name.endswith(f"/{split}") for name in by_source)
    }
    text = heading("Bytes per token, by source and split")
    return text + legend(keys) + table(heads, rows, texts=2)


def _per_token(values: Mapping[str, Any]) -> float:
    return float(values["text_bytes"] / values["tokens"]) if values["tokens"] else 0.0


MAX_STRAGGLERS = 10
_SMALL = 0.25
"""Of the median size of its stage: a slice that is smaller is left out."""

_LEAST = 3
"""Slices of a stage: fewer have no median worth the name."""


def stragglers(journal: RunJournal) -> str:
    """Return the table; nothing if no stage has slices enough."""
    found = slowest(journal.slices)
    if not found:
        return ""
    rows = [
        (
            code(numbers.slice_name(slowest_slice.name, slowest_slice.stage), 120),
            escaped(slowest_slice.stage, 60),
            code(slowest_slice.worker, 80),
            numbers.seconds(slowest_slice.seconds),
            numbers.num_bytes(slowest_slice.num_bytes),
            numbers.rate(slowest_slice.num_bytes, slowest_slice.seconds),
            f"{times:.2f}\u00d7",
            f"{slowest_slice.attempts:,}",
        )
        for times, slowest_slice in found
    ]
    heads = ("slice", "stage", "worker", "time", "text", "rate", "of the median", "attempts")
    text = (
        "Seconds per byte against the median of the stage, of slices that have at least a quarter "
        "of the median size."
    )
    return f"{heading('Slowest slices')}{table(heads, rows, texts=3)}{note(text)}"


def slowest(slices: Sequence[JournalledSlice]) -> list[tuple[float, JournalledSlice]]:
    """Return the slowest slices for their size, each as a multiple of its stage's median."""
    ended = [
        result
        for result in slices
        if result.error is None and result.num_bytes > 0 and result.seconds > 0
    ]
    by_stage: dict[str, list[JournalledSlice]] = {}
    for result in ended:
        by_stage.setdefault(result.stage, []).append(result)
    found: list[tuple[float, JournalledSlice]] = []
    for group in by_stage.values():
        least = _SMALL * median(result.num_bytes for result in group)
        large = [result for result in group if result.num_bytes >= least]
        if len(large) < _LEAST:
            continue
        usual = median(result.seconds / result.num_bytes for result in large)
        found += [(result.seconds / result.num_bytes / usual, result) for result in large]
    return sorted(found, key=lambda item: (-item[0], item[1].stage, item[1].name))[:MAX_STRAGGLERS]
