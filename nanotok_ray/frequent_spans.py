"""The most frequent of counted spans, in an order that depends on the counts and the bytes alone.

Takes distinct spans and how often each occurs. Does not know what they are wanted for.
"""

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents


def most_frequent(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.uint64],
    *,
    max_spans: int,
) -> Documents:
    """Give up to `max_spans` spans, the highest count first, among equals the smallest bytes.

    Args:
        data: the bytes of all spans, back to back.
        offsets: [n + 1] positions in `data`; no span comes twice.
        counts: [n], how often each occurs.
        max_spans: how many to give at most; fewer if there are not as many.

    >>> spans = Documents.from_strings(["a", "c", "b", "rare"])
    >>> counts = np.array([2, 5, 5, 1], dtype=np.uint64)
    >>> list(most_frequent(spans.data, spans.offsets, counts, max_spans=3))
    [b'b', b'c', b'a']
    """
    spans = Documents(data=data, offsets=offsets)
    rows = most_frequent_rows(spans, counts, max_spans=max_spans)
    return Documents.from_arrow(spans.to_arrow(as_bytes=True).take(rows))


def most_frequent_rows(
    spans: Documents, counts: NDArray[np.uint64], *, max_spans: int
) -> NDArray[np.int64]:
    """Give the rows [at most `max_spans`] of `most_frequent`, in its order."""
    import pyarrow as pa  # noqa: PLC0415 - a tokenizer that is only used does not need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if max_spans <= 0 or not len(counts):
        return np.zeros(0, dtype=np.int64)
    kept = np.flatnonzero(counts >= _least_count(counts, max_spans))
    chosen = spans.to_arrow(as_bytes=True).take(kept)
    table = pa.table({"count": counts[kept], "span": chosen})
    keys = [("count", "descending"), ("span", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)[:max_spans]
    return np.asarray(kept[order.to_numpy()], dtype=np.int64)


def _least_count(counts: NDArray[np.uint64], max_spans: int) -> int:
    """Give the lowest count that can be among the highest `max_spans`."""
    if len(counts) <= max_spans:
        return 0
    edge = len(counts) - max_spans
    return int(np.partition(counts, edge)[edge])
