"""A packing group: some documents, and the rows that are made of them.

Documents become segments and a report of what packing cost. Lengths are read, and images where a
conversation is cropped, but no ids.

best-fit: rows of length + 1 tokens. Each takes the largest candidate that fits what is left of it;
if none fits, as much of the longest one as does, and the rest of that one stays a candidate. So no
token is lost, and only one row of a group may end in padding. All tokens are trained on. Rows made
so begin with large documents and end with the rests of larger ones, and batches of neighbours would
be unlike each other: the rows of a group are taken in a random order of the seed, shuffled or not.

windows: the documents back to back, cut every `length` tokens, so that every token is an input
exactly once; rows overlap by the one token that is the last target. Only the last row of a group
may end in padding, and rows stay in order. All tokens are trained on.

conversations: as best-fit, but documents are never cut in two: where none fits, the row ends in
padding. A document longer than a row is dropped, or cropped to its first length + 1 tokens, fewer
if an image would be cut. Targets are trained on where the mask of their token is 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from nanotok_ray import _core
from nanotok_ray.loader.batch import Numbers, PackingReport, Segments
from nanotok_ray.loader.order import Permutation
from nanotok_ray.loader.settings import RowSettings
from nanotok_ray.loader.shards import Shards


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """The rows of a group, and what they cost."""

    segments: Segments
    report: PackingReport


def pack(shards: Shards, documents: Numbers, settings: RowSettings, *, name: str = "") -> Group:
    """Pack documents, all of which are there from the start.

    Documents without a token are left out.

    Args:
        shards: where they are.
        documents: their global indices.
        settings: what decides the rows.
        name: distinguishes the order of the rows from that of other groups.
    """
    group = _PACKINGS[settings.packing](shards, documents, settings)
    if settings.packing == "windows":
        return group
    rows = group.segments.num_rows
    order = Permutation(rows, seed=settings.seed, name=f"rows {name}")(np.arange(rows))
    return replace(group, segments=group.segments.reordered(order))


def _best_fit(shards: Shards, documents: Numbers, settings: RowSettings) -> Group:
    lengths = shards.lengths(documents)
    packed = _core.best_fit_rows(lengths, settings.capacity, keep_rest=True)
    return _group(
        documents,
        packed,
        cells=settings.capacity,
        tokens=int(lengths.sum()),
        cut_documents=int((np.bincount(packed[0]) > 1).sum()),
    )


def _windows(shards: Shards, documents: Numbers, settings: RowSettings) -> Group:
    lengths = shards.lengths(documents)
    ends = np.cumsum(lengths)
    is_cut = (ends - lengths) // settings.length != (ends - 1) // settings.length
    return _group(
        documents,
        _core.window_rows(lengths, settings.length),
        cells=settings.length,
        tokens=int(lengths.sum()),
        cut_documents=int((is_cut & (lengths > 0)).sum()),
    )


def _conversations(shards: Shards, documents: Numbers, settings: RowSettings) -> Group:
    lengths = shards.lengths(documents)
    packed_lengths = lengths.copy()
    for index in np.flatnonzero(lengths > settings.capacity).tolist():
        is_cropped = settings.too_long == "crop"
        packed_lengths[index] = (
            _cropped(shards, int(documents[index]), settings.capacity) if is_cropped else 0
        )
    is_cut = (packed_lengths > 0) & (packed_lengths < lengths)
    return _group(
        documents,
        _core.best_fit_rows(packed_lengths, settings.capacity, keep_rest=False),
        cells=settings.capacity,
        tokens=int(packed_lengths.sum()),
        cropped_tokens=int((lengths - packed_lengths)[is_cut].sum()),
        cut_documents=int(is_cut.sum()),
        dropped_documents=int(((packed_lengths == 0) & (lengths > 0)).sum()),
    )


_PACKINGS: dict[str, Callable[[Shards, Numbers, RowSettings], Group]] = {
    "best-fit": _best_fit,
    "windows": _windows,
    "conversations": _conversations,
}


def _cropped(shards: Shards, document: int, capacity: int) -> int:
    """Return how many tokens of a longer document are packed: no image is cut."""
    images = shards.images(document)
    if images is None:
        return capacity
    is_cut = (images[:, 0] < capacity) & (images[:, 1] > capacity)
    return int(images[is_cut, 0][0]) if is_cut.any() else capacity


def _group(
    documents: Numbers,
    packed: tuple[np.ndarray, np.ndarray, np.ndarray, Numbers],
    *,
    cells: int,
    tokens: int,
    cut_documents: int,
    cropped_tokens: int = 0,
    dropped_documents: int = 0,
) -> Group:
    """Return what the core packed: of each segment its document's place, start and length; rows."""
    indexes, starts, lengths, rows = packed
    num_rows = len(rows) - 1
    segments = Segments(
        documents=documents[indexes],
        starts=starts.astype(np.int64),
        lengths=lengths.astype(np.int64),
        rows=rows,
    )
    report = PackingReport(
        rows=num_rows,
        tokens=tokens,
        padding=num_rows * cells - tokens,
        cropped_tokens=cropped_tokens,
        documents=len(documents),
        cut_documents=cut_documents,
        dropped_documents=dropped_documents,
        groups=1,
    )
    return Group(segments=segments, report=report)
