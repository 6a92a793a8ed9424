"""When which worker was busy, in a run: slices on one clock, and work by lane and stretch of time.

Takes a journal; gives numbers. Does not know how they are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.job.journal import JournalledSlice, RunJournal
from nanotok_ray.report_page.head import began_at

BINS: Final = 200
"""Stretches of time that a run is cut into."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceBar:
    """A slice as it is drawn."""

    own: JournalledSlice
    began: float
    """Seconds after the run began."""
    ended: float


def origin_of(journal: RunJournal) -> float:
    """Give when the run began, or its first slice, where the head is not there."""
    first = min((own.at - own.seconds for own in journal.slices), default=0.0)
    return began_at(journal) or first


def bars_of(journal: RunJournal) -> tuple[list[SliceBar], float]:
    """Give the slices in seconds after the run began, and how long it was.

    A worker's clock may be off: a bar ends no later than the driver heard of it.
    """
    start = origin_of(journal)
    bars = []
    for own in journal.slices:
        end = own.at - start
        began = own.began - start if own.began > 0 else end - own.seconds
        if not 0 <= began <= end:
            began = max(end - own.seconds, 0.0)
        bars.append(SliceBar(own=own, began=began, ended=max(min(began + own.seconds, end), began)))
    last = max([bar.ended for bar in bars] + [journal.last_at - start, 1e-3])
    return bars, last


def busy_seconds(
    bars: Sequence[SliceBar], lanes: Sequence[Sequence[str]], stages: Sequence[str], width: float
) -> NDArray[np.float64]:
    """Give seconds of work by stage, lane and stretch of time: [stages, lanes, bins]."""
    lane_of = {worker: number for number, own in enumerate(lanes) for worker in own}
    stage_of = {name: number for number, name in enumerate(stages)}
    rows = np.array(
        [stage_of[bar.own.stage] * len(lanes) + lane_of[bar.own.worker] for bar in bars]
    )
    step = width / BINS
    starts = np.clip(np.array([bar.began for bar in bars]) / step, 0, BINS)
    ends = np.clip(np.array([bar.ended for bar in bars]) / step, 0, BINS)
    done = np.zeros((len(stages) * len(lanes), BINS + 2))
    for places, sign in ((starts, 1.0), (ends, -1.0)):  # how much work has begun, less what ended
        whole = places.astype(int)
        rest = places - whole
        np.add.at(done, (rows, whole), sign * (1 - rest))
        np.add.at(done, (rows, whole + 1), sign * rest)
    busy = np.cumsum(done, axis=1)[:, :BINS] * step
    return np.maximum(busy, 0.0).reshape(len(stages), len(lanes), BINS)
