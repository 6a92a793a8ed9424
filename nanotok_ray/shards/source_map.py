"""Which rows of which input are the documents of a shard.

One entry per run of documents from one row group (or byte range): the first row, the number of
documents, and the rows in between that are not there (quarantined, or given to the other split by
hash) or, where that list is shorter, those that are.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.sources import Piece


@dataclass(slots=True)
class SourceMap:
    """Grows document by document, in order."""

    pieces: tuple[Piece, ...]
    _places: list[tuple[int, int | None]] = field(default_factory=list)
    _rows: list[list[npt.NDArray[np.int64]]] = field(default_factory=list)

    def add(self, piece: int, group: int | None, rows: npt.NDArray[np.int64]) -> None:
        """Add documents: the number of their piece, their row group, their rows in rising order."""
        if not self._places or self._places[-1] != (piece, group):
            self._places.append((piece, group))
            self._rows.append([])
        self._rows[-1].append(rows)

    def entries(self) -> list[dict[str, Any]]:
        """Give the map as plain values, for a record."""
        return [
            self._entry(self.pieces[piece], group, np.concatenate(rows))
            for (piece, group), rows in zip(self._places, self._rows, strict=True)
        ]

    @staticmethod
    def _entry(piece: Piece, group: int | None, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
        first, last = int(rows[0]), int(rows[-1])
        place = {"range": [piece.start, piece.stop]} if group is None else {"row_group": group}
        entry = {"file": piece.path, **place, "first_row": first, "rows": len(rows)}
        absent = last - first + 1 - len(rows)
        if absent > len(rows):
            return entry | {"present": rows.tolist()}
        if absent:
            missing = np.setdiff1d(np.arange(first, last + 1), rows, assume_unique=True)
            return entry | {"absent": missing.tolist()}
        return entry


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
