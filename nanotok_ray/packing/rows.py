"""Rows to arrays: the tokens of segments, shifted by one into inputs and targets.

Takes shards, and which segments make which row. Does not know why they do.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.errors import CorruptOutputError, PackingError
from nanotok_ray.packing.batch import Cells, Segments
from nanotok_ray.reader import Shards

BOS = "<|bos|>"
DTYPES = (np.dtype(np.int32), np.dtype(np.int64))
Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def padding_id(shards: Shards) -> int:
    """Give the id that stands in inputs where no token does: that of `<|bos|>`, or 0."""
    return int(shards.manifest["special_tokens"].get(BOS, 0))


def check_shards(shards: object) -> None:
    """Refuse what is no documents: the path of an output, say."""
    if not isinstance(shards, Shards):
        raise PackingError(
            f"shards is {shards!r:.100}; it is what nanotok_ray.open_shards gives: open them first"
        )


def fill(
    shards: Shards,
    segments: Segments,
    inputs: Cells,
    targets: Cells,
    *,
    pad: int,
    masked: bool = False,
) -> None:
    """Write the rows of `segments` to `inputs` and `targets`, each (rows, length).

    Args:
        shards: where the documents are.
        segments: rows of length + 1 tokens at most.
        inputs: int32 or int64, C-contiguous.
        targets: as `inputs`; -1 where a row has no next token.
        pad: the id for inputs that no token stands in.
        masked: targets whose mask is 0 are -1; documents without masks are trained on whole.

    Raises:
        CorruptOutputError: an id is none of the tokenizer's; a model has no row for it.
    """
    found = shards.pieces(segments.documents, segments.starts, segments.lengths, masks=masked)
    try:
        _core.fill_rows(
            found.ids,
            found.masks,
            found.which,
            found.offsets,
            segments.lengths,
            segments.rows,
            inputs,
            targets,
            pad=pad,
            num_ids=shards.num_ids,
        )
    except PackingError:
        _refuse_unknown(shards, segments)
        raise


def _refuse_unknown(shards: Shards, segments: Segments) -> None:
    """Name the first document that has an id which the tokenizer does not have, if one has."""
    for document in segments.documents.tolist():
        highest = int(shards[document].max(initial=0))
        if highest >= shards.num_ids:
            name, number = shards.shard_of(document)
            raise CorruptOutputError(
                f"document {number} of {name} has the id {highest}, the tokenizer has ids below "
                f"{shards.num_ids}: the shard was changed, `nanotok verify` names all that is wrong"
            ) from None


def arrays_for(rows: int, length: int, dtype: npt.DTypeLike) -> Arrays:
    """Make inputs and targets of so many rows.

    >>> [array.shape for array in arrays_for(2, 3, np.int32)]
    [(2, 3), (2, 3)]
    """
    return np.empty((rows, length), dtype=dtype), np.empty((rows, length), dtype=dtype)


def check_arrays(into: Arrays, *, rows: int, length: int) -> None:
    """Refuse arrays that cannot take a batch.

    Raises:
        PackingError: another shape, not int32 or int64, not C-contiguous or not writeable.
    """
    for name, array in zip(("inputs", "targets"), into, strict=True):
        if array.shape != (rows, length):
            raise PackingError(
                f"into: {name} has shape {array.shape}, a batch has ({rows}, {length})"
            )
        if array.dtype not in DTYPES or array.dtype != into[0].dtype:
            raise PackingError(
                f"into: {name} is {array.dtype}; give two arrays of int32, or two of int64"
            )
        if not (array.flags.c_contiguous and array.flags.writeable):
            raise PackingError(f"into: {name} must be C-contiguous and writeable")
