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
    heading,
    legend,
    note,
    shown,
    stage_kind,
    table,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    name: str
    seconds: float
    num_bytes: float
    done: int | None
    kept: int | None
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
            shown(line.name, 60),
            bar(
                [Part(kind=stage_kind(line.name), value=line.seconds, title=line.name)], of=longest
            ),
            numbers.seconds(line.seconds) if line.has_ended else "did not end",
            numbers.share(line.seconds, total),
            numbers.rate(line.num_bytes, line.seconds),
            _count(line.done),
            _count(line.kept),
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
        own = facts.worked.stages
        ends = [*(each.at for each in own[1:]), facts.worked.last_at]
        yield from map(_of_journal, own, ends)
    elif facts.summary is not None:
        yield from (
            _of_summary(name, each) for name, each in facts.summary.get("stages", {}).items()
        )


def _of_journal(stage: Stage, end: float) -> _Line:
    took = max(end - stage.at, 0.0) if stage.seconds is None else stage.seconds
    return _Line(
        name=stage.name,
        seconds=took,
        num_bytes=stage.done_bytes,
        done=_done(stage),
        kept=stage.kept,
        failed=stage.failed,
        has_ended=stage.seconds is not None,
    )


def _done(stage: Stage) -> int | None:
    """Return what was done; progress is told now and then, so the last may be missing."""
    if stage.seconds is None:
        return stage.done
    return stage.todo if stage.progress else stage.done or (None if stage.todo else 0)


def _of_summary(name: str, own: dict[str, Any]) -> _Line:
    return _Line(
        name=name, seconds=own["seconds"], num_bytes=own["bytes"], done=None, kept=None, failed=None
    )


_SPLITS: Final = {"train": "c1", "val": "c8"}


def sources(facts: Facts) -> str:
    """Return the table by source and split; nothing without a manifest."""
    if facts.manifest is None:
        return ""
    own = facts.sources
    everything = facts.manifest["totals"]["all"]
    most = max((_per_token(each) for each in own.values()), default=0.0)
    tokens = everything["tokens"]
    rows = []
    for name, each in [*own.items(), *([("all", everything)] if len(own) > 1 else [])]:
        source, _, split = name.rpartition("/")
        is_sum = name == "all"
        kind = "c6" if is_sum else _SPLITS[split]
        ratio = _per_token(each)
        part = Part(kind=kind, value=ratio, title=f"{ratio:.3f} bytes per token")
        rows.append(
            (
                "all" if is_sum else shown(name, 80),
                bar([part], of=most),
                numbers.ratio(each["text_bytes"], each["tokens"]),
                f"{each['documents']['out']:,}",
                numbers.num_bytes(each["text_bytes"]),
                f"{each['tokens']:,}",
                numbers.share(each["tokens"], tokens),
                "" if is_sum else shown(facts.manifest["kinds"][source], 40),
            )
        )
    heads = (
        *("source", "bytes per token", "", "documents"),
        *("text", "tokens", "share of tokens", "kind"),
    )
    keys = {
        split: kind
        for split, kind in _SPLITS.items()
        if any(name.endswith(f"/{split}") for name in own)
    }
    told = heading("Bytes per token, by source and split")
    return told + legend(keys) + table(heads, rows, texts=2)


def _per_token(own: Mapping[str, Any]) -> float:
    return float(own["text_bytes"] / own["tokens"]) if own["tokens"] else 0.0


SHOWN = 10
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
            code(numbers.slice_name(own.name, own.stage), 120),
            shown(own.stage, 60),
            code(own.worker, 80),
            numbers.seconds(own.seconds),
            numbers.num_bytes(own.num_bytes),
            numbers.rate(own.num_bytes, own.seconds),
            f"{times:.2f}\u00d7",
            f"{own.attempts:,}",
        )
        for times, own in found
    ]
    heads = ("slice", "stage", "worker", "time", "text", "rate", "of the median", "attempts")
    told = (
        "Seconds per byte against the median of the stage, of slices that have at least a quarter "
        "of the median size."
    )
    return f"{heading('Slowest slices')}{table(heads, rows, texts=3)}{note(told)}"


def slowest(slices: Sequence[JournalledSlice]) -> list[tuple[float, JournalledSlice]]:
    """Return the slowest slices for their size, each as a multiple of its stage's median."""
    ended = [own for own in slices if own.error is None and own.num_bytes > 0 and own.seconds > 0]
    by_stage: dict[str, list[JournalledSlice]] = {}
    for own in ended:
        by_stage.setdefault(own.stage, []).append(own)
    found: list[tuple[float, JournalledSlice]] = []
    for group in by_stage.values():
        least = _SMALL * median(own.num_bytes for own in group)
        large = [own for own in group if own.num_bytes >= least]
        if len(large) < _LEAST:
            continue
        usual = median(own.seconds / own.num_bytes for own in large)
        found += [(own.seconds / own.num_bytes / usual, own) for own in large]
    return sorted(found, key=lambda each: (-each[0], each[1].stage, each[1].name))[:SHOWN]
