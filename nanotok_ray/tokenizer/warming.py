"""A span table for a tokenizer that has none, from counts of a corpus, and its share of those."""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.count_file import Run
from nanotok_ray.counts.totals import most_frequent_rows
from nanotok_ray.documents.batch import Documents
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.span_table import write_span_table

_WHOLE = r"(?s:.+)"  # a document is one span
_LONGEST = 255
_SHORT = 15  # up to so many bytes the ids are packed
_PACKED_IDS = {2: 7, 4: 3}  # by the bytes of an id
_NARROW_TOKENS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTableShare:
    """What a span table holds of the corpus that it was made from."""

    num_spans: int
    """Distinct spans in the table."""
    num_distinct: int
    """Distinct spans of the corpus."""
    span_share: float
    """Of all spans of the corpus, how many are in the table; from 0 to 1."""
    byte_share: float
    """The same of bytes."""
    file_bytes: int
    """Size of the table's file."""


def warm(model: Model, run: Run, folder: str | os.PathLike[str], *, spans: int) -> SpanTableShare:
    """Write the table of the most frequent spans, in place of one that may be there.

    Args:
        model: that of the tokenizer in `folder`.
        run: distinct spans, at least one, and how often each occurs.
        folder: path or URL of the tokenizer.
        spans: how many to take at most; some are not held, as `write_span_table` says.

    Raises:
        OSError: It cannot be written.
    """
    _, data, offsets, counts = run
    every = Documents(data=data, offsets=offsets)
    rows = most_frequent_rows(every, counts, max_spans=spans)
    chosen = Documents.from_arrow(every.to_arrow(as_bytes=True).take(rows))
    file_bytes = write_span_table(model, chosen, folder)
    held = rows[_are_held(model, chosen)]
    lengths = np.diff(offsets).astype(np.float64)  # a share needs no more than its 53 bits
    times = counts.astype(np.float64)
    return SpanTableShare(
        num_spans=len(held),
        num_distinct=len(counts),
        span_share=float(times[held].sum() / times.sum()),
        byte_share=float((lengths * times)[held].sum() / (lengths * times).sum()),
        file_bytes=file_bytes,
    )


def _are_held(model: Model, spans: Documents) -> NDArray[np.bool_]:
    """Return whether the table holds each span."""
    lengths = np.diff(spans.offsets)
    encoder = _core.Encoder(_WHOLE, model.merge_array, byte_order=model.core_byte_order)
    _, ends = encoder.encode_batch(spans.data, spans.offsets, threads=1, wide=True)
    packed = _PACKED_IDS[2 if len(model.tokens) <= _NARROW_TOKENS else 4]
    is_packed = np.diff(ends) <= packed
    return (lengths <= _LONGEST) & ((lengths > _SHORT) | is_packed)
