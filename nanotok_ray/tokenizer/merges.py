"""From counts to merges, and how far that is."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.counts.totals import SpanTotals
from nanotok_ray.errors import TokenizerError

if TYPE_CHECKING:
    from nanotok_ray.counts.totals import Reduced


Made = tuple[tuple[int, int], bytes, int]
"""The last merge: its pair, the bytes of its token, how often the pair occurred."""

OnMerges = Callable[[int, int, Made | None], None]
"""Called as (merges made, merges asked for, the last one), about every 1%."""

REACHED = "vocabulary size reached"
NO_PAIR_LEFT = "no pair left"
BELOW_MIN_PAIR_COUNT = "below min_pair_count"

SHORTEST = 2
"""Bytes of the shortest token that a merge makes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What the learner found."""

    merges: npt.NDArray[np.uint32]
    """[m, 2]: the pair of each merge, in order; merge k makes id 256 + k."""
    counts: npt.NDArray[np.uint64]
    """[m]: how often the pair of each merge occurred when it was merged."""
    applied: npt.NDArray[np.uint64]
    """[m]: how often each pair was merged; by so much the number of tokens fell."""
    stop_reason: str
    """Why learning ended."""
    span_data: npt.NDArray[np.uint8]
    """The bytes of all distinct spans, back to back."""
    span_offsets: npt.NDArray[np.int64]
    """[n + 1]: where each begins, and the end."""
    span_counts: npt.NDArray[np.uint64]
    """[n]: how often each occurs in all files together, weighted."""
    totals: SpanTotals
    """What was counted, and what of it was dropped before learning: plain counts."""

    @property
    def spans(self) -> int:
        """How many spans were counted."""
        return self.totals.spans

    @property
    def span_bytes(self) -> int:
        """The bytes of all spans that were counted, each as often as it occurs."""
        return self.totals.span_bytes

    @property
    def distinct_spans(self) -> int:
        """How many different spans were counted."""
        return self.totals.distinct_spans


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """How far learning goes, and on how many threads.

    Raises:
        TokenizerError: a number is out of its range; names it and its range.
    """

    num_merges: int
    """The most merges to make."""
    min_pair_count: int = 1
    """Pairs that occur less often are not merged."""
    max_token_bytes: int | None = None
    """No merge makes a token of more bytes; None: of any number."""
    threads: int = 1
    """The most threads to use; the result does not depend on it."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_pair_count < 2**64:
            raise TokenizerError(
                f"min_pair_count is {self.min_pair_count}: it must be 1 (merge every pair) to "
                "2**64 - 1"
            )
        if self.max_token_bytes is not None and not SHORTEST <= self.max_token_bytes < 2**64:
            raise TokenizerError(
                f"max_token_bytes is {self.max_token_bytes}: a merge makes a token of at least "
                f"{SHORTEST} bytes; give a higher number, or none for no limit"
            )
        if self.threads < 1:
            raise TokenizerError(f"threads is {self.threads}: it must be at least 1")


def learn_merges(
    sums: "Reduced", settings: TrainSettings, *, on_progress: OnMerges | None = None
) -> Learned:
    """Learn merges from summed counts of spans.

    Highest count first; among equals the smallest (left, right). The result depends on the sums
    alone, so neither the order of count files nor how the corpus was sliced can change it. That all
    were cut by one pattern is for the caller to see to.

    Args:
        sums: the spans and how often each occurs.
        settings: when learning ends.
        on_progress: called about every 1%; what it raises ends the call.

    Raises:
        CountOverflowError: a pair's count would pass 2**64 - 1.
    """
    merges, counts, applied, stop_reason = _core.learn(
        sums.data,
        sums.offsets,
        sums.counts,
        num_merges=settings.num_merges,
        min_pair_count=settings.min_pair_count,
        max_token_bytes=settings.max_token_bytes,
        threads=settings.threads,
        on_progress=on_progress,
    )
    return Learned(
        merges=merges,
        counts=counts,
        applied=applied,
        stop_reason=stop_reason,
        span_data=sums.data,
        span_offsets=sums.offsets,
        span_counts=sums.counts,
        totals=sums.totals,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeProgress:
    """How far learning is."""

    done: int
    """Merges made."""
    total: int
    """Merges asked for; there may be no pair for all of them."""
    pair: tuple[int, int] | None
    """The pair of ids that was merged last; None before the first merge."""
    token: bytes | None
    """What it spells."""
    count: int | None
    """How often it occurred when it was merged, overlaps included."""
    merges_per_second: float
    """Merges by seconds, from the start on."""
    seconds: float
    """Since learning began."""


def timed(on_progress: Callable[[MergeProgress], None]) -> OnMerges:
    """Return what the core calls; it calls `on_progress` with a value. The time begins now."""
    start = time.perf_counter()

    def report(done: int, total: int, last: Made | None) -> None:
        seconds = time.perf_counter() - start
        pair, token, count = (None, None, None) if last is None else last
        on_progress(
            MergeProgress(
                done=done,
                total=total,
                pair=pair,
                token=token,
                count=count,
                merges_per_second=done / seconds if seconds else 0.0,
                seconds=seconds,
            )
        )

    return report
