"""Weights of sources, totals of counts, and the most frequent spans."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import SourceError

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.counts.count_file import Run
    from nanotok_ray.recipe import SourceRecipe

SHARE_UNIT = 1024
"""Weights that come of shares are rounded to a whole number of so many parts of 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """By what the counts of each source are multiplied.

    >>> from nanotok_ray.recipe import SourceRecipe
    >>> sources = [SourceRecipe(name="en", kind="text", paths=("-",)),
    ...            SourceRecipe(name="fi", kind="text", paths=("-",), weight="2.5")]
    >>> weights = Weights.of(sources, text_bytes={"en": 900, "fi": 100})
    >>> weights.unit, weights.multipliers
    (2, {'en': 2, 'fi': 5})
    """

    unit: int
    """What a count of weight 1 is multiplied by."""
    multipliers: Mapping[str, int]
    """What each count of a source is multiplied by: its weight in units."""

    @classmethod
    def of(cls, sources: Sequence["SourceRecipe"], *, text_bytes: Mapping[str, int]) -> "Weights":
        """Find the multipliers of sources that are counted.

        A decimal is exact. A share is of the bytes of text that were counted: with `share:0.3` the
        weighted text of the source is 0.3 of all, but for rounding. Weights that are all equal
        change nothing and give multipliers of 1.

        Args:
            sources: those that are counted; all of them have shares, or none.
            text_bytes: by name, the bytes of text that were counted.

        Raises:
            SourceError: a source is to be a share of what is learned from, and has no text.
        """
        if sources[0].learned_share is not None:
            unit, weights = SHARE_UNIT, _of_shares(sources, text_bytes)
        else:
            exact = {source.name: Fraction(source.weight) for source in sources}
            unit = lcm(*(weight.denominator for weight in exact.values()))
            weights = {name: int(weight * unit) for name, weight in exact.items()}
        if len(set(weights.values())) == 1:
            unit, weights = 1, dict.fromkeys(weights, 1)
        return cls(unit=unit, multipliers=weights)


def _of_shares(sources: Sequence["SourceRecipe"], text_bytes: Mapping[str, int]) -> dict[str, int]:
    total = sum(text_bytes.get(source.name, 0) for source in sources)
    weights = {}
    for source in sources:
        size = text_bytes.get(source.name, 0)
        if not size:
            raise SourceError(
                f"source {source.name!r} has weight = {source.weight!r} and no text at all in its "
                "train split; give it texts, or a weight that is no share"
            )
        assert source.learned_share is not None
        weight = Fraction(source.learned_share) * total / size
        weights[source.name] = max(1, round(weight * SHARE_UNIT))
    return weights


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
    def of(cls, offsets: NDArray[np.int64], counts: NDArray[np.uint64]) -> "Self":
        """Add up spans that begin at `offsets` [n + 1] and occur `counts` [n] times."""
        spans = span_bytes = 0
        for start in range(0, len(counts), _BLOCK):
            block = counts[start : start + _BLOCK]
            lengths = np.diff(offsets[start : start + _BLOCK + 1]).astype(np.uint64)
            spans += _product(block, np.ones_like(block))
            span_bytes += _product(block, lengths)
        return cls(spans=spans, span_bytes=span_bytes, distinct_spans=len(counts))


def _product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """Return the sum of products, without a limit."""
    if left.astype(np.float64) @ right.astype(np.float64) < _SAFE:
        return int(left @ right)
    return sum(map(mul, left.tolist(), right.tolist()))


def most_frequent_rows(
    spans: Documents, counts: NDArray[np.uint64], *, max_spans: int
) -> NDArray[np.int64]:
    """Return the rows of up to `max_spans` spans, the highest count first.

    Among spans of one count those with the smallest bytes come first.

    >>> spans = Documents.from_strings(["a", "c", "b", "rare"])
    >>> counts = np.array([2, 5, 5, 1], dtype=np.uint64)
    >>> most_frequent_rows(spans, counts, max_spans=3).tolist()
    [2, 1, 0]
    """
    import pyarrow as pa  # noqa: PLC0415 - a tokenizer that is only used does not need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if max_spans <= 0 or not len(counts):
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(counts >= _least_count(counts, max_spans))
    chosen = spans.to_arrow(as_bytes=True).take(candidates)
    table = pa.table({"count": counts[candidates], "span": chosen})
    keys = [("count", "descending"), ("span", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)[:max_spans]
    return np.asarray(candidates[order.to_numpy()], dtype=np.int64)


def _least_count(counts: NDArray[np.uint64], max_spans: int) -> int:
    """Return the lowest count that can be among the highest `max_spans`."""
    if len(counts) <= max_spans:
        return 0
    edge = len(counts) - max_spans
    return int(np.partition(counts, edge)[edge])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reduced:
    """All spans of count files, sorted by (hash64, span), and their weighted counts."""

    data: NDArray[np.uint8]
    """The bytes of the spans, back to back."""
    offsets: NDArray[np.int64]
    """[n + 1]: where each begins, and the end."""
    counts: NDArray[np.uint64]
    """[n]: how often each occurs, weighted: what is learned from."""
    totals: SpanTotals
    """How much was read, and how much of it was dropped: plain counts."""

    @classmethod
    def of_run(cls, run: "Run") -> "Self":
        """Take the spans of one run, of which nothing was dropped."""
        _, data, offsets, counts = run
        return cls(data=data, offsets=offsets, counts=counts, totals=SpanTotals.of(offsets, counts))
