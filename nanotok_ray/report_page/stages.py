"""The stages of a run: what each took, and how fast it was.

Takes the facts; gives markup.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nanotok_ray.job.journal import Stage
from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import Part, bar, shown, table
from nanotok_ray.report_page.palette import stage_kind


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
    """Give the table of stages with bars of time; nothing if none is known."""
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
    """Give what was done; progress is told now and then, so the last may be missing."""
    if stage.seconds is None:
        return stage.done
    return stage.todo if stage.progress else stage.done or (None if stage.todo else 0)


def _of_summary(name: str, own: dict[str, Any]) -> _Line:
    return _Line(
        name=name, seconds=own["seconds"], num_bytes=own["bytes"], done=None, kept=None, failed=None
    )
