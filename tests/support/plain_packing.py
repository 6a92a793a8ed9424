"""Plain twins of the core's packing: each the statement of its rule.

Lists and scans, however slow. The arguments and results are those of `nanotok_ray._core`; wrong
arguments are not looked for.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Rows = NDArray[np.int32] | NDArray[np.int64]
Segment = tuple[int, int, int]
"""Document, first token in it, tokens."""
Columns = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]
"""Documents, first tokens in them, tokens; and where the segments of each row begin."""


def plain_best_fit_rows(
    lengths: Sequence[int] | NDArray[np.int64], capacity: int, *, keep_rest: bool
) -> Columns:
    """Pack all documents; the largest that fits goes first."""
    whole = [int(length) for length in lengths]
    if not keep_rest and any(length > capacity for length in whole):
        raise ValueError("a document is longer than a row")
    left = list(whole)
    rows = []
    while any(left):
        row: list[Segment] = []
        rest = capacity
        while rest and any(left):
            fitting = [number for number, length in enumerate(left) if 0 < length <= rest]
            if not fitting and not keep_rest:
                break
            # `max` takes the first of equal ones.
            number = max(fitting or range(len(left)), key=left.__getitem__)
            taken = min(left[number], rest)
            row.append((number, whole[number] - left[number], taken))
            left[number] -= taken
            rest -= taken
        rows.append(row)
    return _columns(rows)


def plain_window_rows(lengths: Sequence[int] | NDArray[np.int64], length: int) -> Columns:
    """Cut the list of all tokens into windows that share a token with the next."""
    tokens = [(number, at) for number, tokens in enumerate(lengths) for at in range(tokens)]
    rows = []
    for start in range(0, len(tokens), length):
        row: list[Segment] = []
        for number, at in tokens[start : start + length + 1]:
            if row and row[-1][0] == number:
                row[-1] = (number, row[-1][1], row[-1][2] + 1)
            else:
                row.append((number, at, 1))
        rows.append(row)
    return _columns(rows)


class PlainBestFitBuffer:
    """The buffer of nanochat's loader: a list that is scanned for each document."""

    def __init__(self, capacity: int, buffer_size: int) -> None:
        """Begin with no documents and an empty row."""
        self.capacity = capacity
        self.buffer_size = buffer_size
        self.documents: list[tuple[int, int]] = []  # number, length
        self.row: list[tuple[int, int]] = []
        self.pushed = 0
        self.num_rows = 0
        self.num_tokens = 0
        self.cropped_tokens = 0
        self.cropped_documents = 0

    @property
    def needs_documents(self) -> bool:
        """Whether fewer than `buffer_size` documents are there."""
        return len(self.documents) < self.buffer_size

    def push(self, lengths: Sequence[int] | NDArray[np.int64]) -> None:
        """Add documents."""
        for length in lengths:
            self.documents.append((self.pushed, int(length)))
            self.pushed += 1

    def pack(
        self, max_rows: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
        """Pack up to `max_rows` complete rows."""
        rows: list[list[tuple[int, int]]] = []
        while len(rows) < max_rows and not self.needs_documents:
            rest = self.capacity - sum(length for _, length in self.row)
            at = largest_that_fits([length for _, length in self.documents], rest)
            number, length = self.documents.pop(at)
            taken = min(length, rest)
            self.row.append((number, taken))
            self.num_tokens += taken
            self.cropped_tokens += length - taken
            self.cropped_documents += length > taken
            if taken == rest:
                rows.append(self.row)
                self.num_rows += 1
                self.row = []
        segments = [segment for row in rows for segment in row]
        documents = np.array([number for number, _ in segments], np.uint64)
        lengths = np.array([length for _, length in segments], np.uint32)
        return documents, lengths, _ends(rows)

    def skip(self, max_rows: int) -> int:
        """Pack, and return only the number of rows."""
        return len(self.pack(max_rows)[2]) - 1


def largest_that_fits(lengths: list[int], rest: int) -> int:
    """Return the place of the largest that fits, else of the shortest; the first of equal ones."""
    fitting = [place for place, length in enumerate(lengths) if length <= rest]
    if fitting:
        return max(fitting, key=lengths.__getitem__)
    return min(range(len(lengths)), key=lengths.__getitem__)


def plain_fill_rows(  # noqa: PLR0917 (as the core's)
    ids: Sequence[Ids],
    masks: Sequence[NDArray[np.uint8] | None] | None,
    which: NDArray[np.int64],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    inputs: Rows,
    targets: Rows,
    *,
    pad: int,
) -> None:
    """Write inputs and targets token by token."""
    for row, (first, end) in enumerate(pairwise(rows)):
        tokens: list[int] = []
        wanted: list[int] = []  # as targets
        for segment in range(first, end):
            array = which[segment]
            mask = masks[array] if masks is not None else None
            for at in range(offsets[segment], offsets[segment] + lengths[segment]):
                tokens.append(int(ids[array][at]))
                wanted.append(tokens[-1] if mask is None or mask[at] else -1)
        for at in range(inputs.shape[1]):
            inputs[row, at] = tokens[at] if at < len(tokens) else pad
            targets[row, at] = wanted[at + 1] if at + 1 < len(wanted) else -1


def _columns(rows: list[list[Segment]]) -> Columns:
    columns = np.array([segment for row in rows for segment in row], np.uint32).reshape(-1, 3)
    documents, starts, lengths = columns.T
    return documents, starts, lengths, _ends(rows)


def _ends(rows: Sequence[Sequence[object]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)
