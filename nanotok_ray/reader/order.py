"""In which order an epoch takes documents: as they lie, shuffled, or shuffled by blocks.

Takes positions in an epoch; gives documents, each computed alone. Does not know shards, nor ranks.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError
from nanotok_ray.reader.permutation import MAX_SIZE, Permutation, check_numbers

Numbers = npt.NDArray[np.int64]
Shuffle = Literal["document", "block"]


@dataclass(frozen=True, slots=True)
class DocumentOrder:
    """The order of so many documents, anew for each epoch if they are shuffled.

    Shuffled by block, neighbouring documents stay near each other, which spares disks and stores:
    the blocks are taken in a random order, and the documents of a block one after the other, in a
    random order of their own.

    >>> DocumentOrder(5, shuffle="block", block_documents=2, seed=3).at(np.arange(5), 0).tolist()
    [4, 2, 3, 1, 0]
    """

    documents: int
    _: KW_ONLY
    shuffle: Shuffle | None = None
    seed: int = 0
    block_documents: int = 1024
    name: str = ""
    """Tells orders of the same seed apart."""

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            PackingError: one is none of what it may be.
        """
        if not 0 <= self.documents <= MAX_SIZE:
            raise PackingError(
                f"an order of {self.documents} documents: 0 to {MAX_SIZE} are possible"
            )
        if self.shuffle is not None and self.shuffle not in get_args(Shuffle):
            known = ", ".join(map(repr, get_args(Shuffle)))
            raise PackingError(f"shuffle is {self.shuffle!r}; it is one of None, {known}")
        if self.block_documents < 1:
            raise PackingError(f"block_documents is {self.block_documents}; 1 is the least")

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Give the document at each position of an epoch, int64 (n,); each document has one.

        Raises:
            IndexError: there is no such position.
        """
        check_numbers(positions, self.documents)
        if self.shuffle is None:
            return positions.astype(np.int64)
        if self.shuffle == "document":
            return self._permutation(self.documents, epoch, "document")(positions)
        return self._by_blocks(positions.astype(np.int64), epoch)

    def _permutation(self, size: int, epoch: int, part: str) -> Permutation:
        return Permutation(size, seed=self.seed, epoch=epoch, name=f"{part} {self.name}")

    def _by_blocks(self, positions: Numbers, epoch: int) -> Numbers:
        """Take blocks in permuted order; the last one, which may be short, is at some place too."""
        size = self.block_documents
        short = self.documents % size
        blocks = self._permutation(-(-self.documents // size), epoch, "blocks")
        if not short:
            return self._within(blocks, positions, epoch)
        begin = int(blocks.inverse(np.array([blocks.size - 1]))[0]) * size
        is_short = (positions >= begin) & (positions < begin + short)
        behind = positions >= begin + short
        found = self._within(blocks, np.where(behind, positions + (size - short), positions), epoch)
        own = self._permutation(short, epoch, "short block")(positions[is_short] - begin)
        found[is_short] = own + (self.documents - short)
        return found

    def _within(self, blocks: Permutation, positions: Numbers, epoch: int) -> Numbers:
        """Give documents as if all blocks were full."""
        size = self.block_documents
        places = positions // size
        chosen = blocks(places)
        inner = self._permutation(size, epoch, "block")
        return chosen * size + inner(positions - places * size, variants=chosen)
