"""How far learning is, as a value: merges made, the last of them, and how fast they come.

Made from what the core tells about every 1%. Does not know how it is shown.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from nanotok_ray.merges import Made, OnMerges


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
    """Give what the core calls; it calls `on_progress` with a value. The time begins now."""
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
