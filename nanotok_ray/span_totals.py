"""How many spans counts stand for: sums over all of them, before weights.

Takes arrays of spans and counts, or what the core added up. Does not know where counts come from.
"""

from dataclasses import dataclass
from operator import mul
from typing import Self

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**20
"""So many counts are added up at a time."""

_SAFE = 2.0**62
"""A sum below this, to some digits, is one of 64 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTotals:
    """Sums over spans: each as often as it occurs, weights left out.

    >>> offsets, counts = np.array([0, 3, 4]), np.array([2**63, 1], dtype=np.uint64)
    >>> totals = SpanTotals.of(offsets, counts)
    >>> totals.spans == 2**63 + 1, totals.span_bytes == 3 * 2**63 + 1, totals.distinct_spans
    (True, True, 2)
    """

    spans: int
    """How many spans there are, dropped ones included."""
    span_bytes: int
    """The bytes of these."""
    distinct_spans: int
    """How many different ones they are."""
    dropped_spans: int = 0
    """How many of the spans were dropped, as they occur too rarely."""
    dropped_bytes: int = 0
    """The bytes of these."""
    dropped_distinct: int = 0
    """How many different ones were dropped."""

    @classmethod
    def of(cls, offsets: NDArray[np.int64], counts: NDArray[np.uint64]) -> Self:
        """Add up spans that begin at `offsets` [n + 1] and occur `counts` [n] times."""
        spans = span_bytes = 0
        for start in range(0, len(counts), _BLOCK):
            own = counts[start : start + _BLOCK]
            lengths = np.diff(offsets[start : start + _BLOCK + 1]).astype(np.uint64)
            spans += _product(own, np.ones_like(own))
            span_bytes += _product(own, lengths)
        return cls(spans=spans, span_bytes=span_bytes, distinct_spans=len(counts))


def _product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """Give the sum of products, without a limit."""
    if left.astype(np.float64) @ right.astype(np.float64) < _SAFE:
        return int(left @ right)
    return sum(map(mul, left.tolist(), right.tolist()))
