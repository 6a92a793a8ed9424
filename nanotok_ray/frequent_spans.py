"""The most frequent of counted spans, in an order that depends on the counts and the bytes alone.

Takes distinct spans and how often each occurs. Does not know what they are wanted for.
"""

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import Documents


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
    import pyarrow as pa  # noqa: PLC0415 - a tokenizer that is only used does not need it
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    if not max_spans or not len(counts):
        return Documents.from_bytes([])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    spans = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(counts), buffers)
    kept = np.flatnonzero(counts >= _least_count(counts, max_spans))
    table = pa.table({"count": counts[kept], "span": spans.take(pa.array(kept))})
    keys = [("count", "descending"), ("span", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)
    return Documents.from_arrow(table["span"].take(order[:max_spans]))


def _least_count(counts: NDArray[np.uint64], max_spans: int) -> int:
    """Give the lowest count that can be among the highest `max_spans`."""
    if len(counts) <= max_spans:
        return 0
    edge = len(counts) - max_spans
    return int(np.partition(counts, edge)[edge])
