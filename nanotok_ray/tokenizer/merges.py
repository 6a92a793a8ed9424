"""From counts to merges, and how far that is."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError

if TYPE_CHECKING:
    from nanotok_ray.counts.count_file import Run
    from nanotok_ray.counts.reduce import Reduced, SpanTotals


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
    totals: "SpanTotals"
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


def learn_reduced(
    reduced: "Reduced",
    *,
    num_merges: int,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int = 1,
    on_progress: OnMerges | None = None,
) -> Learned:
    """Learn up to `num_merges` merges from the sums of count files, as `learn_run` does.

    The result depends on the sums alone, so neither the order of the files nor how the corpus was
    sliced can change it. That all were cut by one pattern is for the caller to see to.

    Raises:
        CountOverflowError, TokenizerError: as for `learn_run`.
    """
    check_limits(min_pair_count=min_pair_count, max_token_bytes=max_token_bytes, threads=threads)
    return _learn(
        reduced.data,
        reduced.offsets,
        reduced.counts,
        totals=reduced.totals,
        num_merges=num_merges,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
        on_progress=on_progress,
    )


def learn_run(
    run: "Run",
    *,
    num_merges: int,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int = 1,
    on_progress: OnMerges | None = None,
) -> Learned:
    """Learn up to `num_merges` merges from one run.

    Highest count first; among equals the smallest (left, right).

    Args:
        run: hashes, bytes of the spans, their offsets, counts; the hashes are not read.
        num_merges: make so many at most.
        min_pair_count: do not merge a pair that occurs less often.
        max_token_bytes: make no token of more bytes; None: of any number.
        threads: use so many at most; the result does not depend on it.
        on_progress: called about every 1%; what it raises ends the call.

    Raises:
        CountOverflowError: a pair's count would pass 2**64 - 1.
        TokenizerError: a limit is out of its range.
    """
    check_limits(min_pair_count=min_pair_count, max_token_bytes=max_token_bytes, threads=threads)
    from nanotok_ray.counts.reduce import SpanTotals  # noqa: PLC0415 - needs pyarrow

    _, data, offsets, counts = run
    return _learn(
        data,
        offsets,
        counts,
        totals=SpanTotals.of(offsets, counts),
        num_merges=num_merges,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
        on_progress=on_progress,
    )


def _learn(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    counts: npt.NDArray[np.uint64],
    *,
    totals: "SpanTotals",
    num_merges: int,
    min_pair_count: int,
    max_token_bytes: int | None,
    threads: int,
    on_progress: OnMerges | None,
) -> Learned:
    merges, merge_counts, applied, stop_reason = _core.learn(
        data,
        offsets,
        counts,
        num_merges=num_merges,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
        on_progress=on_progress,
    )
    return Learned(
        merges=merges,
        counts=merge_counts,
        applied=applied,
        stop_reason=stop_reason,
        span_data=data,
        span_offsets=offsets,
        span_counts=counts,
        totals=totals,
    )


def check_limits(*, min_pair_count: int, max_token_bytes: int | None, threads: int) -> None:
    """Check that the limits of learning are in their ranges.

    Raises:
        TokenizerError: one is not; names it and its range.
    """
    if not 1 <= min_pair_count < 2**64:
        raise TokenizerError(
            f"min_pair_count is {min_pair_count}: it must be 1 (merge every pair) to 2**64 - 1"
        )
    if max_token_bytes is not None and not SHORTEST <= max_token_bytes < 2**64:
        raise TokenizerError(
            f"max_token_bytes is {max_token_bytes}: a merge makes a token of at least {SHORTEST} "
            "bytes; give a higher number, or none for no limit"
        )
    if threads < 1:
        raise TokenizerError(f"threads is {threads}: it must be at least 1")


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
