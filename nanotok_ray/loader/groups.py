"""A packing group: some documents, and the rows that are packed from them.

Packing turns documents into segments and a report of lost tokens and padding. It reads lengths, and
the images of conversations that are cropped, but no ids.

best-fit: rows of length + 1 tokens. Each row takes the largest candidate that fits in the rest of
the row. If none fits, the row is filled from the longest candidate, whose rest stays a candidate.
So no token is lost, and only one row of a group can end in padding. All tokens are trained on. The
rows begin with large documents and end with the rests of larger ones, so that consecutive batches
would differ systematically. Therefore the rows of a group are used in a random order, which depends
on the seed, whether or not documents are shuffled.

windows: the documents are concatenated and cut every `length` tokens, so that every token is an
input exactly once. Consecutive rows overlap by one token, the last target. Only the last row of a
group can end in padding, and rows stay in order. All tokens are trained on.

conversations: same as best-fit, but documents are never split: if none fits, the row ends in
padding. A document longer than a row is dropped, or cropped to its first length + 1 tokens, fewer
if an image would be cut. A target is trained on if the mask of its token is 1.
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
    """The rows of a group and their packing report."""

    segments: Segments
    report: PackingReport


def pack(shards: Shards, documents: Numbers, settings: RowSettings, *, name: str = "") -> Group:
    """Pack documents, all of which are candidates from the start.

    Documents without a token are skipped.

    Args:
        shards: the shards that hold the documents.
        documents: the global indices of the documents.
        settings: the settings that determine the rows.
        name: distinguishes the order of the rows from the order in other groups.
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
    cut_documents = int((np.bincount(packed[0]) > 1).sum())
    report = PackingReport(tokens=int(lengths.sum()), cut_documents=cut_documents)
    return _group(documents, packed, report, cells=settings.capacity)


def _windows(shards: Shards, documents: Numbers, settings: RowSettings) -> Group:
    lengths = shards.lengths(documents)
    ends = np.cumsum(lengths)
    is_cut = (ends - lengths) // settings.length != (ends - 1) // settings.length
    cut_documents = int((is_cut & (lengths > 0)).sum())
    report = PackingReport(tokens=int(lengths.sum()), cut_documents=cut_documents)
    packed = _core.window_rows(lengths, settings.length)
    return _group(documents, packed, report, cells=settings.length)


def _conversations(shards: Shards, documents: Numbers, settings: RowSettings) -> Group:
    lengths = shards.lengths(documents)
    packed_lengths = lengths.copy()
    for index in np.flatnonzero(lengths > settings.capacity).tolist():
        is_cropped = settings.too_long == "crop"
        packed_lengths[index] = (
            _cropped(shards, int(documents[index]), settings.capacity) if is_cropped else 0
        )
    is_cut = (packed_lengths > 0) & (packed_lengths < lengths)
    report = PackingReport(
        tokens=int(packed_lengths.sum()),
        cropped_tokens=int((lengths - packed_lengths)[is_cut].sum()),
        cut_documents=int(is_cut.sum()),
        dropped_documents=int(((packed_lengths == 0) & (lengths > 0)).sum()),
    )
    packed = _core.best_fit_rows(packed_lengths, settings.capacity, keep_rest=False)
    return _group(documents, packed, report, cells=settings.capacity)


_PACKINGS: dict[str, Callable[[Shards, Numbers, RowSettings], Group]] = {
    "best-fit": _best_fit,
    "windows": _windows,
    "conversations": _conversations,
}


def _cropped(shards: Shards, document: int, capacity: int) -> int:
    """Return the number of tokens of a too long document that are packed: no image is cut."""
    images = shards.images(document)
    if images is None:
        return capacity
    is_cut = (images[:, 0] < capacity) & (images[:, 1] > capacity)
    return int(images[is_cut, 0][0]) if is_cut.any() else capacity


def _group(
    documents: Numbers,
    packed: tuple[np.ndarray, np.ndarray, np.ndarray, Numbers],
    report: PackingReport,
    *,
    cells: int,
) -> Group:
    """Return the group that the core packed, from each segment's document, start and length.

    The report has the tokens and the losses; the rows, of `cells` cells, are added to it.
    """
    indexes, starts, lengths, rows = packed
    num_rows = len(rows) - 1
    segments = Segments(
        documents=documents[indexes],
        starts=starts.astype(np.int64),
        lengths=lengths.astype(np.int64),
        rows=rows,
    )
    report = replace(
        report,
        rows=num_rows,
        padding=num_rows * cells - report.tokens,
        documents=len(documents),
        groups=1,
    )
    return Group(segments=segments, report=report)
