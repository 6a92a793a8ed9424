"""The curve of sizes: how many tokens the counted text has after so many merges, from one learning.

Takes how often each merge was applied, as by so much the number of tokens fell; knows neither texts
nor merges.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

NUM_BYTES = 256

FIRST_STEP = 1000
"""Merges of the first row after the start; every row after it has twice as many."""


def size_curve(
    applied: Sequence[int], *, span_bytes: int, num_special_tokens: int
) -> list[dict[str, Any]]:
    """Give a row for 0 merges, 1,000, 2,000, 4,000 and so on, and for all of them.

    >>> rows = size_curve([3, 1], span_bytes=9, num_special_tokens=1)
    >>> [(row["merges"], row["vocab_size"], row["tokens"], row["bytes_per_token"]) for row in rows]
    [(0, 257, 9, 1.0), (2, 259, 5, 1.8)]

    Args:
        applied: [m], how often each merge was applied.
        span_bytes: bytes of all spans, each as often as it occurs: the tokens before any merge.
        num_special_tokens: part of each vocabulary size.
    """
    left = list(accumulate(applied, lambda tokens, fewer: tokens - fewer, initial=span_bytes))
    rows: list[dict[str, Any]] = []
    for merges in _steps(len(applied)):
        tokens = left[merges]
        before = rows[-1]["tokens"] if rows else 0
        rows.append(
            {
                "merges": merges,
                "vocab_size": NUM_BYTES + merges + num_special_tokens,
                "tokens": tokens,
                "bytes_per_token": round(span_bytes / tokens, 4) if tokens else None,
                "tokens_saved_share": round(1 - tokens / before, 4) if before else None,
            }
        )
    return rows


def _steps(num_merges: int) -> list[int]:
    steps = [0]
    while (step := max(2 * steps[-1], FIRST_STEP)) < num_merges:
        steps.append(step)
    return [*steps, num_merges] if num_merges else steps
