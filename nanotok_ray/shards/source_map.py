"""Which rows of which input are the documents of a shard.

One entry per run of documents from one row group (or byte range): the first row, the number of
documents, and the rows in between that are not there (quarantined, or given to the other split by
hash) or, where that list is shorter, those that are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.sources import Piece


@dataclass(slots=True)
class _Run:
    """Documents from one row group (or byte range): neighbouring rows are not kept one by one."""

    piece: Piece
    group: int | None
    parts: list[range | npt.NDArray[np.int64]] = field(default_factory=list)

    def add(self, rows: npt.NDArray[np.int64]) -> None:
        """Add rows, all of them after those before."""
        first, stop = int(rows[0]), int(rows[-1]) + 1
        if stop - first != len(rows):
            self.parts.append(rows)
            return
        last = self.parts[-1] if self.parts else None
        if isinstance(last, range) and last.stop == first:
            first = self.parts.pop()[0]
        self.parts.append(range(first, stop))

    def entry(self) -> dict[str, Any]:
        """Give the run as plain values."""
        rows = sum(map(len, self.parts))
        first, last = int(self.parts[0][0]), int(self.parts[-1][-1])
        range_ = {"range": [self.piece.start, self.piece.stop]}
        place = range_ if self.group is None else {"row_group": self.group}
        entry = {"file": self.piece.path, **place, "first_row": first, "rows": rows}
        absent = last - first + 1 - rows
        if absent > rows:
            return entry | {"present": [int(row) for part in self.parts for row in part]}
        return entry | {"absent": list(self._absent(first))} if absent else entry

    def _absent(self, expected: int) -> Iterator[int]:
        """Give the rows from `expected` on that are not there."""
        for part in self.parts:
            start, stop = int(part[0]), int(part[-1]) + 1
            yield from range(expected, start)
            if not isinstance(part, range):
                yield from np.setdiff1d(np.arange(start, stop), part, assume_unique=True).tolist()
            expected = stop


@dataclass(slots=True)
class SourceMap:
    """Grows document by document, in order."""

    pieces: tuple[Piece, ...]
    _runs: list[_Run] = field(default_factory=list)

    def add(self, piece: int, group: int | None, rows: npt.NDArray[np.int64]) -> None:
        """Add documents: the number of their piece, their row group, their rows in rising order."""
        own = self.pieces[piece]
        last = self._runs[-1] if self._runs else None
        if last is None or last.piece is not own or last.group != group:
            self._runs.append(_Run(piece=own, group=group))
        self._runs[-1].add(rows)

    def entries(self) -> list[dict[str, Any]]:
        """Give the map as plain values, for a record."""
        return [run.entry() for run in self._runs]


def mapped_rows(entry: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Give the row of each document of an entry, in order.

    >>> mapped_rows({"first_row": 4, "rows": 3, "absent": [5]}).tolist()
    [4, 6, 7]
    """
    if "present" in entry:
        return np.asarray(entry["present"], dtype=np.int64)
    absent = entry.get("absent", [])
    first = int(entry["first_row"])
    rows = np.arange(first, first + int(entry["rows"]) + len(absent), dtype=np.int64)
    return np.setdiff1d(rows, absent, assume_unique=True)
