"""The course of a run: its stages, and the slowest slices."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from nanotok_ray.job.journal import JournalledSlice, RunJournal, Stage
from nanotok_ray.report.facts import Facts, slice_name
from nanotok_ray.report.render import Bar, Cell, Code, Part, Row, Segment
from nanotok_ray.units import (
    format_bytes,
    format_duration,
    format_rate,
    format_share,
)

_STAGES: Final = {
    "count": "c1",
    "merge": "c5",
    "reduce": "c5",
    "learn": "c3",
    "tokenize": "c2",
    "check": "c6",
    "verify": "c6",
}
_OTHER_STAGE: Final = "c4"
"""Exports."""


def stage_kind(name: str) -> str:
    """Return the class of the color of a stage.

    >>> stage_kind("count"), stage_kind("export llmc")
    ('c1', 'c4')
    """
    return _STAGES.get(name, _OTHER_STAGE)


def stages(facts: Facts) -> Iterator[Part]:
    """Yield the table of stages with bars of time; nothing without stages."""
    lines = _lines(facts)
    if not lines:
        return
    max_seconds = max(seconds for _, seconds in lines)
    total = sum(seconds for _, seconds in lines)
    rows = []
    for stage, seconds in lines:
        segment = Segment(kind=stage_kind(stage.name), value=seconds, title=stage.name)
        row: dict[str, Cell] = {
            "stage": stage.name,
            "": Bar([segment], max_seconds),
            "time": "did not end" if stage.seconds is None else format_duration(seconds),
            "share": format_share(seconds, total),
            "rate": format_rate(stage.done_bytes, seconds),
        }
        if facts.worked is not None:  # a summary does not tell them
            row |= {"done": _done(stage), "already done": stage.kept, "failed": stage.failed}
        rows.append(row)
    text = ""
    if facts.worked is not None and facts.worked is not facts.journal:
        text = (
            "The last run processed no slices. The slices, and stages that it did not repeat, are "
            f"those of run {facts.worked.run}."
        )
    yield Part(text=text, rows=rows, texts=2)


def _lines(facts: Facts) -> list[tuple[Stage, float]]:
    """Return the stages, and the seconds that each took."""
    if facts.worked is None or not facts.worked.stages:
        return [
            (
                Stage(
                    name=name,
                    todo=0,
                    kept=0,
                    num_bytes=0,
                    at=0.0,
                    done_bytes=time.bytes,
                    seconds=time.seconds,
                ),
                time.seconds,
            )
            for name, time in facts.stage_times.items()
        ]
    is_same = facts.journal is None or facts.journal is facts.worked
    last = [] if is_same or facts.journal is None else _of_run(facts.journal)
    repeated = {stage.name for stage, _ in last}
    lines = [line for line in _of_run(facts.worked) if line[0].name not in repeated]
    return [*lines, *last]


def _of_run(journal: RunJournal) -> list[tuple[Stage, float]]:
    ends = [*(stage.at for stage in journal.stages[1:]), journal.last_at]
    return [
        (stage, max(end - stage.at, 0.0) if stage.seconds is None else stage.seconds)
        for stage, end in zip(journal.stages, ends, strict=False)
    ]


def _done(stage: Stage) -> str | int:
    """Return the finished number; the last progress can be missing from the journal."""
    if stage.seconds is None:
        return stage.done
    known = stage.todo if stage.progress else stage.done or (None if stage.todo else 0)
    return "\u2013" if known is None else known


MAX_STRAGGLERS = 10
_SMALL = 0.25
"""A slice below this share of the median size of its stage is skipped."""

_MIN_SLICES = 3
"""Minimum number of slices of a stage for a meaningful median."""


def stragglers(facts: Facts) -> Iterator[Part]:
    """Yield the slowest slices; nothing if no stage has enough slices."""
    ranking = [] if facts.worked is None else slowest(facts.worked.slices)
    if not ranking:
        return
    rows: list[Row] = [
        {
            "slice": Code(slice_name(entry.name, entry.stage)),
            "stage": entry.stage,
            "worker": Code(entry.worker),
            "time": format_duration(entry.seconds),
            "text": format_bytes(entry.num_bytes),
            "rate": format_rate(entry.num_bytes, entry.seconds),
            "of the median": f"{times:.2f}\u00d7",
            "attempts": entry.attempts,
        }
        for times, entry in ranking
    ]
    yield Part(
        title="Slowest slices",
        rows=rows,
        texts=3,
        note="Seconds per byte against the median of the stage, of slices that have at least a "
        "quarter of the median size.",
    )


def slowest(slices: Sequence[JournalledSlice]) -> list[tuple[float, JournalledSlice]]:
    """Return the slowest slices relative to their size, as multiples of their stage's median."""
    ended = [
        result
        for result in slices
        if result.error is None and result.num_bytes > 0 and result.seconds > 0
    ]
    by_stage: dict[str, list[JournalledSlice]] = {}
    for result in ended:
        by_stage.setdefault(result.stage, []).append(result)
    ranking: list[tuple[float, JournalledSlice]] = []
    for group in by_stage.values():
        min_bytes = _SMALL * median(result.num_bytes for result in group)
        large = [result for result in group if result.num_bytes >= min_bytes]
        if len(large) < _MIN_SLICES:
            continue
        usual = median(result.seconds / result.num_bytes for result in large)
        ranking += [(result.seconds / result.num_bytes / usual, result) for result in large]
    ranking.sort(key=lambda item: (-item[0], item[1].stage, item[1].name))
    return ranking[:MAX_STRAGGLERS]
