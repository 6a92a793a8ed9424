"""The timeline of a run: its slices by worker, and the failed attempts."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.job.journal import JournalledSlice, RunJournal
from nanotok_ray.report.charts import Axis, Chart, Mark, box, time_axis
from nanotok_ray.report.facts import Facts, began_at, slice_name
from nanotok_ray.report.render import Part
from nanotok_ray.report.run import stage_kind
from nanotok_ray.units import (
    format_bytes,
    format_duration,
    format_rate,
    format_share,
    quantity,
)

BINS: Final = 200
"""Number of intervals of the time of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceBar:
    """A slice in the timeline."""

    slice_: JournalledSlice
    began: float
    """Seconds after the start of the run."""
    ended: float


def start_of(journal: RunJournal) -> float:
    """Return the time when the run began, or its first slice if the head is missing."""
    first = min((slice_.at - slice_.seconds for slice_ in journal.slices), default=0.0)
    return began_at(journal) or first


def bars_of(journal: RunJournal) -> tuple[list[SliceBar], float]:
    """Return the slices in seconds after the start of the run, and the duration of the run.

    A worker's clock can be wrong: a bar ends no later than the driver received the result.
    """
    start = start_of(journal)
    bars = []
    for slice_ in journal.slices:
        end = slice_.at - start
        began = slice_.began - start if slice_.began > 0 else end - slice_.seconds
        if not 0 <= began <= end:
            began = max(end - slice_.seconds, 0.0)
        bars.append(
            SliceBar(slice_=slice_, began=began, ended=max(min(began + slice_.seconds, end), began))
        )
    last = max([bar.ended for bar in bars] + [journal.last_at - start, 1e-3])
    return bars, last


def busy_seconds(
    bars: Sequence[SliceBar], lanes: Sequence[Sequence[str]], stages: Sequence[str], width: float
) -> NDArray[np.float64]:
    """Return seconds of work by stage, lane and interval, of shape (stages, lanes, bins)."""
    lane_of = {worker: number for number, lane in enumerate(lanes) for worker in lane}
    stage_of = {name: number for number, name in enumerate(stages)}
    rows = np.array(
        [stage_of[bar.slice_.stage] * len(lanes) + lane_of[bar.slice_.worker] for bar in bars]
    )
    step = width / BINS
    starts = np.clip(np.array([bar.began for bar in bars]) / step, 0, BINS)
    ends = np.clip(np.array([bar.ended for bar in bars]) / step, 0, BINS)
    done = np.zeros((len(stages) * len(lanes), BINS + 2))
    for edges, sign in ((starts, 1.0), (ends, -1.0)):  # begun work minus ended work
        bins = edges.astype(int)
        rest = edges - bins
        np.add.at(done, (rows, bins), sign * (1 - rest))
        np.add.at(done, (rows, bins + 1), sign * rest)
    busy = np.cumsum(done, axis=1)[:, :BINS] * step
    return np.maximum(busy, 0.0).reshape(len(stages), len(lanes), BINS)


MAX_BARS: Final = 5000
MAX_LANES: Final = 128
"""Above this number of slices or workers, the timeline is binned."""

_BINNED_LANES = 48
_LEVELS = 4
_MAX_MARKS = 500
_MIN_SHARE, _MARK_SHARE = 0.0008, 0.003
"""Minimum width of a slice, and width of the mark of a failed attempt, as shares of the picture."""

_FULL_HEIGHT, _MIN_HEIGHT, _TALLEST = 18, 5, 640
_MARKS = 16
"""Heights in pixels: maximum and minimum of a lane, of all lanes, of the marks of failed attempts.
"""
_NAME_CHARS = 200
_DIGITS: Final = re.compile(r"([0-9]+)")
_LABELS = 16
"""Limit of named lanes."""


def timeline(facts: Facts) -> Iterator[Part]:
    """Yield the timeline, if a slice has ended."""
    if facts.worked is not None and facts.worked.slices:
        yield _timeline(facts.worked)


def _timeline(journal: RunJournal) -> Part:
    bars, width = bars_of(journal)
    workers = sorted({bar.slice_.worker for bar in bars}, key=_worker_order)
    is_binned = len(bars) > MAX_BARS or len(workers) > MAX_LANES
    lanes = _groups(workers) if is_binned else [[worker] for worker in workers]
    draw = _cells if is_binned else _slices
    num_slices = sum(bar.slice_.slices for bar in bars)
    height = max(min(_FULL_HEIGHT * len(lanes), _TALLEST), _MIN_HEIGHT * len(lanes)) + _MARKS
    y = Axis(low=len(lanes) * height / (height - _MARKS), high=0, ticks=_lane_names(lanes))
    chart = Chart(
        title="Timeline of slices",
        description=f"{quantity(num_slices, 'slice')} of {quantity(len(workers), 'worker')} "
        f"over {format_duration(width)}; the tables of stages and of the slowest slices say "
        "the same in numbers.",
        x=time_axis(width, name="since the run started"),
        y=y,
        marks=[*draw(bars, lanes, width), *_failed(journal, width, (len(lanes), y.low))],
        height=height,
        kind="lanes",
    )
    return Part(
        legend=_legend(bars, journal),
        chart=chart,
        note=_note(bars, lanes, width, is_binned=is_binned),
    )


def _worker_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a key that sorts numbers by value: node-2 before node-10."""
    parts = _DIGITS.split(name[:_NAME_CHARS])
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts], name


def _groups(workers: list[str]) -> list[list[str]]:
    """Distribute workers over a few lanes by host, with adjacent hosts together."""
    hosts = [[*value] for _, value in groupby(workers, lambda name: name.rpartition("/")[0])]
    parts = hosts if len(hosts) > 1 else [[worker] for worker in workers]
    cuts = np.linspace(0, len(parts), min(len(parts), _BINNED_LANES) + 1).astype(int).tolist()
    return [[*chain(*parts[a:b])] for a, b in pairwise(cuts)]


def _slices(
    bars: Sequence[SliceBar], lanes: Sequence[Sequence[str]], width: float
) -> Iterator[Mark]:
    lane_of = {worker: number for number, workers in enumerate(lanes) for worker in workers}
    for bar in bars:
        entry, lane = bar.slice_, lane_of[bar.slice_.worker]
        kind = "x1" if entry.error is not None else stage_kind(entry.stage)
        yield box(
            (bar.began, lane + 0.92),
            (max(bar.ended, bar.began + _MIN_SHARE * width), lane + 0.08),
            kind=f"{kind} again" if entry.attempts > 1 else kind,
            title=_slice_text(entry),
        )


def _slice_text(entry: JournalledSlice) -> str:
    name = slice_name(entry.name, entry.stage)[:200]
    again = f", {entry.attempts} attempts" if entry.attempts != 1 else ""
    failed = f", failed: {entry.error[:200]}" if entry.error is not None else ""
    return (
        f"{entry.stage}: {name}, {format_duration(entry.seconds)}, "
        f"{format_bytes(entry.num_bytes)}, "
        f"{format_rate(entry.num_bytes, entry.seconds)}{again}, {entry.worker[:100]}{failed}"
    )


def _cells(
    bars: Sequence[SliceBar], lanes: Sequence[Sequence[str]], width: float
) -> Iterator[Mark]:
    """Draw intervals, darker for more work, in the color of most of the work."""
    stages = list(dict.fromkeys(bar.slice_.stage for bar in bars))
    busy = busy_seconds(bars, lanes, stages, width)
    step = width / BINS
    for lane, value in enumerate(lanes):
        share = busy[:, lane].sum(axis=0) / (step * len(value))
        main = busy[:, lane].argmax(axis=0)
        level = np.ceil(np.minimum(share, 1.0) * _LEVELS - 1e-9).astype(int)
        cells = enumerate(zip(level.tolist(), main.tolist(), strict=True))
        for (depth, stage), run in groupby(cells, lambda cell: cell[1]):
            bins = [position for position, _ in run]
            if not depth:
                continue
            part = share[bins[0] : bins[-1] + 1].mean()
            began, ended = bins[0] * step, (bins[-1] + 1) * step
            yield box(
                (began, lane + 0.96),
                (ended, lane + 0.04),
                kind=f"{stage_kind(stages[stage])} v{depth}",
                title=(
                    f"{_lane_name(value)}: mostly {stages[stage]}, {min(part, 1.0):.0%} busy, from "
                    f"{format_duration(began)} to {format_duration(ended)}"
                ),
            )


def _failed(journal: RunJournal, width: float, strip: tuple[float, float]) -> Iterator[Mark]:
    """Mark failed attempts below the lanes; for very many, mark the intervals with failures."""
    began, (top, bottom) = start_of(journal), strip
    top += 0.2 * (bottom - top)
    if len(journal.failed_attempts) > _MAX_MARKS:
        times = [item.at - began for item in journal.failed_attempts]
        yield from _failed_cells(times, width, (top, bottom))
        return
    half = _MARK_SHARE * width / 2
    for item in journal.failed_attempts:
        at, name = max(item.at - began, 0.0), slice_name(item.name, item.stage)[:200]
        more = f" and {item.slices - 1:,} more slices" if item.slices > 1 else ""
        yield box(
            (at - half, bottom),
            (at + half, top),
            kind="x2",
            title=(
                f"failed attempt after {format_duration(at)}: {item.stage}, {name}{more}: "
                f"{item.cause}: {item.text[:200]}"
            ),
        )


def _failed_cells(
    times: Sequence[float], width: float, strip: tuple[float, float]
) -> Iterator[Mark]:
    step, (top, bottom) = width / BINS, strip
    counts = Counter(min(max(int(at / step), 0), BINS - 1) for at in times)
    limit = max(counts.values())
    for position, number in sorted(counts.items()):
        began, ended = position * step, (position + 1) * step
        yield box(
            (began, bottom),
            (ended - 0.1 * step, top),
            kind=f"x2 v{-(-number * _LEVELS // limit)}",
            title=(
                f"{number:,} failed attempts from {format_duration(began)} to "
                f"{format_duration(ended)}"
            ),
        )


def _lane_names(lanes: Sequence[Sequence[str]]) -> dict[float, str]:
    step = -(-len(lanes) // _LABELS)
    return {
        number + 0.5: _lane_name(lane) for number, lane in enumerate(lanes) if number % step == 0
    }


def _lane_name(texts: Sequence[str]) -> str:
    hosts = dict.fromkeys(worker.rpartition("/")[0] for worker in texts)
    if len(texts) == 1:
        return texts[0]
    more = f" and {len(hosts) - 1} hosts more" if len(hosts) > 1 else ""
    return f"{next(iter(hosts))}{more}, {len(texts)} workers"


def _legend(bars: Sequence[SliceBar], journal: RunJournal) -> dict[str, str]:
    stages_of = dict.fromkeys(bar.slice_.stage for bar in bars)
    kinds = {stage: stage_kind(stage) for stage in stages_of}
    if any(bar.slice_.error is not None for bar in bars):
        kinds["failed"] = "x1"
    if journal.failed_attempts:
        kinds["failed attempt"] = "x2"
    return kinds


def _note(
    bars: Sequence[SliceBar], lanes: Sequence[Sequence[str]], width: float, *, is_binned: bool
) -> str:
    workers = sum(map(len, lanes))
    busy = sum(bar.ended - bar.began for bar in bars)
    counted = Counter(bar.slice_.attempts > 1 for bar in bars)
    slices = sum(bar.slice_.slices for bar in bars)
    text = (
        f"{quantity(slices, 'slice')} on {workers:,} "
        f"{'worker, which was' if workers == 1 else 'workers, which were'} busy "
        f"{format_share(busy, width * workers)} of the time. "
    )
    if counted[True]:
        text += (
            f"{quantity(counted[True], 'slice')} took more than one attempt; a mark below the "
            "lanes is an attempt that failed. "
        )
    if is_binned:
        text += (
            f"With so many slices or workers the picture is binned: {BINS} stretches of time of "
            f"{format_duration(width / BINS)} and {len(lanes)} lanes of neighboring workers. A "
            "cell is darker the busier its workers were, and has the color of the stage that "
            "took most of the time."
        )
    else:
        again = "Bars with an outline took several attempts. " if counted[True] else ""
        text += f"{again}Point at a bar for its slice."
    return text
