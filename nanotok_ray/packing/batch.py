"""What a loader gives: arrays for a trainer, which documents they are of, and where to go on.

Plain values. Does not know how rows are packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Inputs or targets, (rows, length)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Segments:
    """Stretches of documents, row by row.

    >>> two = np.array([0, 2], dtype=np.int64)
    >>> one = Segments(documents=two, starts=two, lengths=two, rows=two)
    >>> one.num_rows, one.part(0, 1).documents.tolist()
    (1, [0, 2])
    """

    documents: Numbers
    """The global index of the document of each segment."""
    starts: Numbers
    """Where each begins in its document, in tokens."""
    lengths: Numbers
    """The number of tokens of each."""
    rows: Numbers
    """Segments `rows[i]` to `rows[i + 1]` are row i: one number more than there are rows."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.rows) - 1

    def part(self, start: int, stop: int) -> "Segments":
        """Give the segments of neighbouring rows, as views where that can be."""
        first, last = int(self.rows[start]), int(self.rows[stop])
        return Segments(
            documents=self.documents[first:last],
            starts=self.starts[first:last],
            lengths=self.lengths[first:last],
            rows=self.rows[start : stop + 1] - first,
        )

    def reordered(self, order: Numbers) -> "Segments":
        """Give the rows in another order, (rows,) numbers of rows.

        >>> documents = np.array([4, 5, 6], dtype=np.int64)
        >>> rows = np.array([0, 2, 3], dtype=np.int64)
        >>> one = Segments(documents=documents, starts=documents, lengths=documents, rows=rows)
        >>> one.reordered(np.array([1, 0])).documents.tolist()
        [6, 4, 5]
        """
        counts = np.diff(self.rows)[order]
        rows = np.zeros_like(self.rows)
        np.cumsum(counts, out=rows[1:])
        places = np.arange(rows[-1]) + np.repeat(self.rows[order] - rows[:-1], counts)
        return Segments(
            documents=self.documents[places],
            starts=self.starts[places],
            lengths=self.lengths[places],
            rows=rows,
        )

    @classmethod
    def joined(cls, parts: Sequence["Segments"]) -> "Segments":
        """Give the rows of all parts, one after the other.

        >>> Segments.joined([]).rows.tolist()
        [0]
        """
        if len(parts) == 1:
            return parts[0]
        none = np.zeros(0, dtype=np.int64)
        ends = np.cumsum([0, *(len(part.documents) for part in parts)])
        rows = [part.rows[1:] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return cls(
            documents=np.concatenate([none, *(part.documents for part in parts)]),
            starts=np.concatenate([none, *(part.starts for part in parts)]),
            lengths=np.concatenate([none, *(part.lengths for part in parts)]),
            rows=np.concatenate([np.zeros(1, dtype=np.int64), *rows]),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Rows for one step of one rank."""

    inputs: Cells
    """(rows, length), int32 or int64."""
    targets: Cells
    """As `inputs`: the token after each; -1 where none is to be learned."""
    segments: Segments
    """Which stretches of which documents the rows are made of."""
    state: dict[str, Any]
    """Where to go on after this batch: what `load_state_dict` takes. JSON-able."""
    epoch: int | None = None
    """How often all documents had been taken before those of the last row; None in a mixture."""
