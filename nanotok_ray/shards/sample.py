"""Which documents of a slice are looked at: a seeded sample that grows with the slice.

Takes the sizes of the documents of one batch after the other; gives numbers in the batch. The same
seed and batches give the same sample. Does not know what is done with it.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core

LEAST_DOCUMENTS = 3
LEAST_PER_MILLE = 3
"""Of the bytes: whichever of the two is more."""

WINDOW_BYTES = 64 << 10
"""Of a longer document only a piece of so many bytes is looked at, and counts."""


class Sample:
    """The sample of one slice, while its batches go by."""

    def __init__(self, seed: str) -> None:
        """Begin with nothing."""
        self._seed = seed
        self._picks = 0
        self._seen = 0
        self.documents = 0
        """Documents in the sample."""
        self.bytes = 0
        """Bytes of them that are looked at."""

    def choose(self, sizes: npt.NDArray[np.int64]) -> Iterator[int]:
        """Give the documents of the next batch that belong to the sample.

        >>> sample = Sample("seed")
        >>> len(list(sample.choose(np.array([5, 0, 7, 1])))), sample.documents
        (3, 3)
        """
        self._seen += int(sizes.sum())
        taken: set[int] = set()
        while self._wants_more() and len(taken) < len(sizes):
            number = self._pick(len(sizes), taken)
            taken.add(number)
            self.documents += 1
            self.bytes += min(int(sizes[number]), WINDOW_BYTES)
            yield number

    def _wants_more(self) -> bool:
        return self.documents < LEAST_DOCUMENTS or self.bytes * 1000 < LEAST_PER_MILLE * self._seen

    def _pick(self, count: int, taken: set[int]) -> int:
        """Give the next free number after a pseudo-random one."""
        self._picks += 1
        number = _core.hash64(f"{self._seed} {self._picks}".encode()) % count
        while number in taken:
            number = (number + 1) % count
        return number
