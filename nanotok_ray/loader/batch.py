"""A batch: arrays for a trainer, positions of images, and reports of packing."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.loader.shards import Shards
from nanotok_ray.units import quantity

Numbers = npt.NDArray[np.int64]
State = dict[str, Any]
"""The state of a loader, JSON-able."""
SavedState = Mapping[str, Any]
"""A state as it was loaded, perhaps damaged."""
Cells = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Inputs or targets, of shape (rows, length)."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Segments:
    """Segments of documents, row by row.

    >>> two = np.array([0, 2], dtype=np.int64)
    >>> one = Segments(documents=two, starts=two, lengths=two, rows=two)
    >>> one.num_rows, one.part(0, 1).documents.tolist()
    (1, [0, 2])
    """

    documents: Numbers
    """The global index of the document of each segment."""
    starts: Numbers
    """The first token of each segment, relative to the start of its document."""
    lengths: Numbers
    """The number of tokens of each segment."""
    rows: Numbers
    """Segments `rows[i]` to `rows[i + 1]` form row i; one element more than the number of rows."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.rows) - 1

    def part(self, start: int, stop: int) -> "Segments":
        """Return the segments of rows `start` up to `stop`, as views where possible."""
        first, last = int(self.rows[start]), int(self.rows[stop])
        return Segments(
            documents=self.documents[first:last],
            starts=self.starts[first:last],
            lengths=self.lengths[first:last],
            rows=self.rows[start : stop + 1] - first,
        )

    def reordered(self, order: Numbers) -> "Segments":
        """Return the rows in another order, given as an array of row numbers, (rows,).

        >>> documents = np.array([4, 5, 6], dtype=np.int64)
        >>> rows = np.array([0, 2, 3], dtype=np.int64)
        >>> one = Segments(documents=documents, starts=documents, lengths=documents, rows=rows)
        >>> one.reordered(np.array([1, 0])).documents.tolist()
        [6, 4, 5]
        """
        counts = np.diff(self.rows)[order]
        rows = np.zeros_like(self.rows)
        np.cumsum(counts, out=rows[1:])
        indexes = np.arange(rows[-1]) + np.repeat(self.rows[order] - rows[:-1], counts)
        return Segments(
            documents=self.documents[indexes],
            starts=self.starts[indexes],
            lengths=self.lengths[indexes],
            rows=rows,
        )

    @classmethod
    def joined(cls, parts: Sequence["Segments"]) -> "Segments":
        """Return the rows of all parts, concatenated.

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
    """Same shape and type as `inputs`: the token after each input, -1 where none is trained on."""
    segments: Segments
    """The segments of documents in each row."""
    state: State
    """The state after this batch, for `load_state_dict`. JSON-able."""
    epoch: int | None = None
    """The number of complete epochs before the documents of the last row; None for a mixture."""


def images_in(shards: Shards, batch: Batch) -> Numbers:
    """Find the image tokens of a batch, so that the output of an image encoder can replace them.

    Args:
        shards: the shards that the batch was made from.
        batch: a batch of a loader.

    Returns:
        int64 (m, 5), ordered by row and column: row, the first input column of the image, the
        column after its last, document, number of the image in its document. If the packing cut an
        image (never with `conversations`), the columns are those of its part in the row.
    """
    segments, length = batch.segments, batch.inputs.shape[1]
    placed: list[tuple[int, int, int, int, int]] = []
    for row, (first, stop) in enumerate(pairwise(segments.rows.tolist())):
        column = 0
        for index in range(first, stop):
            document, start = int(segments.documents[index]), int(segments.starts[index])
            end = start + int(segments.lengths[index])
            images = shards.images(document)
            for first_token, behind, number in [] if images is None else images.tolist():
                begin, after = max(first_token, start), min(behind, end)
                shift = column - start
                if begin < after and begin + shift < length:
                    after = min(after + shift, length)
                    placed.append((row, begin + shift, after, document, number))
            column += end - start
    return np.array(placed, dtype=np.int64).reshape(-1, 5)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamUse:
    """The use of a stream, which is one source of a mixture, or all documents."""

    name: str
    documents: int
    tokens: int
    epochs: float
    """Number of uses of its documents: 0.5 means half of them once, 3.0 means all of them three
    times.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingReport:
    """Totals of the documents that a loader has packed so far.

    >>> print(PackingReport(rows=2, tokens=6, padding=2, documents=3, cut_documents=1, groups=1))
    2 rows of 6 tokens and 2 padding (75.0% used), 3 documents: 1 cut, 0 dropped, 0 tokens lost
    """

    rows: int = 0
    tokens: int = 0
    """Tokens in rows, each counted once."""
    padding: int = 0
    """Cells of the rows without a token."""
    cropped_tokens: int = 0
    """Tokens that are in no row although other tokens of their document are."""
    documents: int = 0
    cut_documents: int = 0
    """Documents in several rows or segments, or with cropped tokens."""
    dropped_documents: int = 0
    """Documents with tokens of which none is in a row."""
    groups: int = 0
    """Packing groups, or row groups for nanochat's packing."""

    @property
    def utilisation(self) -> float:
        """The share of the cells that hold a token, 1 if there are no cells."""
        return self.tokens / cells if (cells := self.tokens + self.padding) else 1.0

    def __add__(self, other: "PackingReport") -> "PackingReport":
        """Return the sum of both reports."""
        mine, others = asdict(self), asdict(other)
        return PackingReport(**{name: mine[name] + others[name] for name in mine})

    def to_dict(self) -> dict[str, float]:
        """Return all numbers by name, and `utilisation`."""
        return {**asdict(self), "utilisation": self.utilisation}

    def __str__(self) -> str:
        return (
            f"{quantity(self.rows, 'row')} of {quantity(self.tokens, 'token')} and "
            f"{self.padding:,} padding "
            f"({self.utilisation:.1%} used), {quantity(self.documents, 'document')}: "
            f"{self.cut_documents:,} cut, {self.dropped_documents:,} dropped, "
            f"{quantity(self.cropped_tokens, 'token')} lost"
        )
