"""What is kept of a rendered batch: by what an index can hold, and by the recipe's two rules.

A document of more than `max_tokens` is kept whole, cut, or dropped; one without a token to train on
is kept or dropped. Takes rendered documents; gives arrays, and a reason for each document left out.
Does not know where they came from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from nanotok_ray.chat.batches import RenderedBatch
from nanotok_ray.formats.document_index import MAX_DOCUMENT_TOKENS
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.sources.quarantine import DROPPED


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Keeping:
    """The documents of a batch that are written."""

    kept: npt.NDArray[np.int64]
    """Their numbers in the batch."""
    ids: Ids
    labels: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]
    """Tokens of each."""
    images: npt.NDArray[np.int64]
    """(m, 3): place in `kept`, and where the image's tokens begin and end in the document."""
    left_out: Mapping[int, str]
    """The other documents of the batch, in order, each with its reason."""
    too_long: int
    """Documents of more than `max_tokens`, whatever became of them."""
    cut: int
    untrainable: int
    """Documents without a token to train on, whatever became of them."""

    @classmethod
    def of(cls, rendered: RenderedBatch, settings: ShardSettings) -> Self:
        """Apply the rules to a batch."""
        reasons = dict(rendered.problems)
        lengths = np.diff(rendered.offsets)
        limit = settings.max_tokens
        is_long = np.zeros(len(lengths), dtype=bool)
        if limit is not None:
            is_long = (lengths > limit) & _is_in(lengths, reasons)
            if settings.too_long == "drop":
                _drop_long(lengths, is_long, limit, reasons)
            elif settings.too_long == "cut":
                _drop_cut_images(rendered, is_long, limit, reasons)
                lengths = np.where(is_long, limit, lengths)
        _refuse_longest(lengths, reasons)
        is_bare = ~_is_trained(rendered, lengths) & _is_in(lengths, reasons)
        if settings.untrainable == "drop":
            for number in np.flatnonzero(is_bare).tolist():
                reasons[number] = f"{DROPPED}: no token to train on, limits.untrainable = 'drop'"
        kept = np.flatnonzero(_is_in(lengths, reasons))
        ids, labels = _chosen(rendered, lengths, kept)
        return cls(
            kept=kept,
            ids=ids,
            labels=labels,
            lengths=lengths[kept],
            images=_images(rendered, kept),
            left_out=dict(sorted(reasons.items())),
            too_long=int(np.count_nonzero(is_long)),
            cut=int(np.count_nonzero(is_long[kept])) if settings.too_long == "cut" else 0,
            untrainable=int(np.count_nonzero(is_bare)),
        )


def _is_in(lengths: npt.NDArray[np.int64], reasons: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    """Tell of each document whether it is not left out."""
    is_in = np.ones(len(lengths), dtype=bool)
    is_in[list(reasons)] = False
    return is_in


def _drop_long(
    lengths: npt.NDArray[np.int64],
    is_long: npt.NDArray[np.bool_],
    limit: int,
    reasons: dict[int, str],
) -> None:
    for number in np.flatnonzero(is_long).tolist():
        reasons[number] = f"{DROPPED}: {lengths[number]:,} tokens, limits.max_tokens = {limit:,}"


def _drop_cut_images(
    rendered: RenderedBatch,
    is_long: npt.NDArray[np.bool_],
    limit: int,
    reasons: dict[int, str],
) -> None:
    """Leave out documents of which a cut would take an image, whole or in part."""
    is_lost = is_long[rendered.images[:, 0]] & (rendered.images[:, 2] > limit)
    for number in np.unique(rendered.images[is_lost, 0]).tolist():
        reasons[number] = f"{DROPPED}: max_tokens={limit} cuts an image span"


def _refuse_longest(lengths: npt.NDArray[np.int64], reasons: dict[int, str]) -> None:
    for number in np.flatnonzero(lengths > MAX_DOCUMENT_TOKENS).tolist():
        reasons.setdefault(
            number,
            f"too many tokens: {lengths[number]:,}, an index holds at most {MAX_DOCUMENT_TOKENS:,}",
        )


def _is_trained(rendered: RenderedBatch, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell of each document whether a token of its first `lengths` is under mask 1."""
    mask = np.append(rendered.mask.view(np.bool_), False)  # so that every end is a place
    starts = rendered.offsets[:-1]
    edges = np.column_stack([starts, starts + lengths]).ravel()
    # Not sums, for which numpy takes 8 bytes a token.
    found = np.logical_or.reduceat(mask, edges)[::2] if len(edges) else np.zeros(0, dtype=bool)
    return found & (lengths > 0)


def _chosen(
    rendered: RenderedBatch, lengths: npt.NDArray[np.int64], kept: npt.NDArray[np.int64]
) -> tuple[Ids, npt.NDArray[np.uint8]]:
    """Give ids and labels of the kept documents, the first `lengths` of each."""
    starts, ends = rendered.offsets[:-1], rendered.offsets[1:]
    wanted = np.zeros(len(lengths), dtype=np.int64)
    wanted[kept] = lengths[kept]
    shorter = np.flatnonzero(starts + wanted < ends)
    if not len(shorter):
        return rendered.ids, rendered.labels
    is_chosen = np.ones(len(rendered.ids), dtype=bool)
    for number in shorter.tolist():
        is_chosen[starts[number] + wanted[number] : ends[number]] = False
    return rendered.ids[is_chosen], rendered.labels[is_chosen]


def _images(rendered: RenderedBatch, kept: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Give the images of the kept documents, whose numbers become places."""
    at = np.searchsorted(kept, rendered.images[:, 0])
    is_kept = at < len(kept)
    is_kept[is_kept] = kept[at[is_kept]] == rendered.images[is_kept, 0]
    return np.column_stack([at[is_kept], rendered.images[is_kept, 1:]])
