"""Distinct spans and their counts on disk as numpy files, for exchange between processes.

The arrays are those of `_core.learn`. The module needs only numpy, so that a peer's interpreter
can use it.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Spans(NamedTuple):
    """The bytes of all spans back to back, n + 1 positions in them, and n counts."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.uint64]

    def strings(self) -> list[str]:
        """Return the spans as text; UnicodeDecodeError if one is not UTF-8."""
        data, ends = self.data.tobytes(), self.offsets.tolist()
        return [data[ends[n] : ends[n + 1]].decode() for n in range(len(self.counts))]


def save(spans: Spans, folder: Path) -> None:
    """Write the arrays into a folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in spans._asdict().items():
        np.save(folder / f"{name}.npy", array)


def load(folder: Path) -> Spans:
    """Read the arrays into memory."""
    return Spans(*(np.load(folder / f"{name}.npy") for name in Spans._fields))
