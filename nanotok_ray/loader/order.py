"""The order of the documents of an epoch, computed by a permutation that needs no table."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError

Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Step = Callable[[_Words, _Words | None], _Words]

MAX_SIZE = 1 << 48
_ROUNDS = 8
_HASH_BITS = 40  # bits of a hash; the product with a side, of at most 24 bits, fits 64 bits


@dataclass(frozen=True, slots=True)
class Permutation:
    """One permutation of the numbers from 0 up to `size`.

    The same arguments produce the same permutation in every version and on every machine.

    >>> own = Permutation(5, seed=1)
    >>> own(np.arange(5)).tolist()
    [3, 0, 1, 4, 2]
    >>> own.inverse(own(np.arange(5))).tolist()
    [0, 1, 2, 3, 4]
    """

    size: int
    _: KW_ONLY
    seed: int
    epoch: int = 0
    name: str = ""
    """Distinguishes permutations of the same seed."""
    _sides: tuple[int, int] = field(init=False, repr=False)
    _keys: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the size and make the keys.

        Raises:
            PackingError: the size is negative or above 2**48.
        """
        if not 0 <= self.size <= MAX_SIZE:
            raise PackingError(
                f"a permutation of {self.size} numbers: 0 to {MAX_SIZE} are possible"
            )
        low = math.isqrt(max(self.size - 1, 0)) + 1
        object.__setattr__(self, "_sides", (low, max(1, -(-self.size // low))))
        object.__setattr__(self, "_keys", tuple(map(self._key, range(_ROUNDS))))

    def __call__(self, numbers: Numbers, *, variants: Numbers | None = None) -> Numbers:
        """Return the number to which the permutation maps each number.

        Args:
            numbers: int64 (n,), each below the size, in any order.
            variants: int64 (n,), for each number, which of many permutations maps it; None: 0.

        Raises:
            IndexError: a number is negative or not below the size.
        """
        return self._walk(numbers, variants, self._forth)

    def inverse(self, numbers: Numbers, *, variants: Numbers | None = None) -> Numbers:
        """Return the number that maps to each number. Arguments and errors are those of a call."""
        return self._walk(numbers, variants, self._back)

    def _key(self, turn: int) -> int:
        text = f"nanotok-permutation 1\n{self.size}\n{self.seed}\n{self.epoch}\n{turn}\n{self.name}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "little")

    def _walk(self, numbers: Numbers, variants: Numbers | None, step: _Step) -> Numbers:
        check_numbers(numbers, self.size)
        tweaks = None if variants is None else _mixed(variants.astype(np.uint64))
        mapped = step(numbers.astype(np.uint64), tweaks)
        while len(outside := np.flatnonzero(mapped >= self.size)):
            outside_tweaks = None if tweaks is None else tweaks[outside]
            mapped[outside] = step(mapped[outside], outside_tweaks)
        return mapped.astype(np.int64)

    def _forth(self, numbers: _Words, tweaks: _Words | None) -> _Words:
        sides = self._split(numbers)
        for turn in range(_ROUNDS):
            side, size = turn % 2, self._sides[turn % 2]
            moved = sides[side] + self._shift(turn, sides[1 - side], tweaks)
            sides[side] = np.where(moved >= size, moved - np.uint64(size), moved)
        return sides[1] * np.uint64(self._sides[0]) + sides[0]

    def _back(self, numbers: _Words, tweaks: _Words | None) -> _Words:
        sides = self._split(numbers)
        for turn in reversed(range(_ROUNDS)):
            side, size = turn % 2, np.uint64(self._sides[turn % 2])
            shift = self._shift(turn, sides[1 - side], tweaks)
            sides[side] = np.where(sides[side] < shift, sides[side] + size, sides[side]) - shift
        return sides[1] * np.uint64(self._sides[0]) + sides[0]

    def _split(self, numbers: _Words) -> list[_Words]:
        high = numbers // np.uint64(self._sides[0])
        return [numbers - high * np.uint64(self._sides[0]), high]

    def _shift(self, turn: int, other: _Words, tweaks: _Words | None) -> _Words:
        """Return the shift of a side in a round, which is less than the size of the side."""
        keyed = other ^ np.uint64(self._keys[turn])
        hashed = _mixed(keyed if tweaks is None else keyed ^ tweaks)
        size = np.uint64(self._sides[turn % 2])
        return ((hashed >> np.uint64(64 - _HASH_BITS)) * size) >> np.uint64(_HASH_BITS)


def check_numbers(numbers: Numbers, size: int) -> None:
    """Raise an error if a number is negative or not below a size.

    Raises:
        IndexError: a number is out of range; the error names the first such number.
    """
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= size):
        wrong = numbers[(numbers < 0) | (numbers >= size)][0]
        raise IndexError(f"number {wrong} of {size}")


def _mixed(words: _Words) -> _Words:
    """Spread each word over all bits, by two rounds of multiply and shift."""
    words = (words ^ (words >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(0xD6E8FEB86659FD93)
    return words ^ (words >> np.uint64(32))


Shuffle = Literal["document", "block"]


@dataclass(frozen=True, slots=True)
class DocumentOrder:
    """The order of a number of documents, which differs in each epoch if they are shuffled.

    If blocks are shuffled, documents of a block stay together, which reduces the work of disks and
    stores: both the blocks and the documents of a block are in random order.

    >>> DocumentOrder(5, shuffle="block", block_documents=2, seed=3).at(np.arange(5), 0).tolist()
    [4, 2, 3, 1, 0]
    """

    documents: int
    _: KW_ONLY
    shuffle: Shuffle | None = None
    seed: int = 0
    block_documents: int = 1024
    name: str = ""
    """Distinguishes orders of the same seed."""

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            PackingError: one is out of its range.
        """
        if not 0 <= self.documents <= MAX_SIZE:
            raise PackingError(
                f"an order of {self.documents} documents: 0 to {MAX_SIZE} are possible"
            )
        if self.shuffle is not None and self.shuffle not in get_args(Shuffle):
            known = ", ".join(map(repr, get_args(Shuffle)))
            raise PackingError(f"shuffle is {self.shuffle!r}; it is one of None, {known}")
        if self.block_documents < 1:
            raise PackingError(f"block_documents is {self.block_documents}; it must be at least 1")

    def at(self, positions: Numbers, epoch: int) -> Numbers:
        """Return the document at each position of an epoch, int64 (n,).

        Each document is at exactly one position.

        Raises:
            IndexError: a position is out of range.
        """
        check_numbers(positions, self.documents)
        if self.shuffle is None:
            return positions.astype(np.int64)
        if self.shuffle == "document":
            return self._permutation(self.documents, epoch, "document")(positions)
        return self._by_blocks(positions.astype(np.int64), epoch)

    def position_of(self, documents: Numbers, epoch: int) -> Numbers:
        """Return the position of each document in an epoch, int64 (n,): the inverse of `at`.

        >>> order = DocumentOrder(5, shuffle="document", seed=3)
        >>> order.position_of(order.at(np.arange(5), 1), 1).tolist()
        [0, 1, 2, 3, 4]

        Raises:
            IndexError: a document is out of range.
        """
        check_numbers(documents, self.documents)
        if self.shuffle is None:
            return documents.astype(np.int64)
        if self.shuffle == "document":
            return self._permutation(self.documents, epoch, "document").inverse(documents)
        return self._in_blocks(documents.astype(np.int64), epoch)

    def _permutation(self, size: int, epoch: int, part: str) -> Permutation:
        return Permutation(size, seed=self.seed, epoch=epoch, name=f"{part} {self.name}")

    def _by_blocks(self, positions: Numbers, epoch: int) -> Numbers:
        """Return documents by blocks in permuted order; the last block can be shorter."""
        size = self.block_documents
        short = self.documents % size
        blocks = self._permutation(-(-self.documents // size), epoch, "blocks")
        if not short:
            return self._within(blocks, positions, epoch)
        begin = int(blocks.inverse(np.array([blocks.size - 1]))[0]) * size
        is_short = (positions >= begin) & (positions < begin + short)
        behind = positions >= begin + short
        documents = self._within(
            blocks, np.where(behind, positions + (size - short), positions), epoch
        )
        in_short = self._permutation(short, epoch, "short block")(positions[is_short] - begin)
        documents[is_short] = in_short + (self.documents - short)
        return documents

    def _within(self, blocks: Permutation, positions: Numbers, epoch: int) -> Numbers:
        """Return the documents at the positions, under the assumption that all blocks are full."""
        size = self.block_documents
        block_positions = positions // size
        chosen = blocks(block_positions)
        inner = self._permutation(size, epoch, "block")
        return chosen * size + inner(positions - block_positions * size, variants=chosen)

    def _in_blocks(self, documents: Numbers, epoch: int) -> Numbers:
        """Return the positions of documents by blocks in permuted order; see `_by_blocks`."""
        size = self.block_documents
        short = self.documents % size
        blocks = self._permutation(-(-self.documents // size), epoch, "blocks")
        chosen = documents // size
        block_positions = blocks.inverse(chosen)
        inner = self._permutation(size, epoch, "block")
        within = inner.inverse(documents - chosen * size, variants=chosen)
        positions = block_positions * size + within
        if not short:
            return positions
        last = int(blocks.inverse(np.array([blocks.size - 1]))[0])
        is_short = chosen == blocks.size - 1
        in_short = self._permutation(short, epoch, "short block").inverse(
            documents[is_short] - (self.documents - short)
        )
        positions[is_short] = last * size + in_short
        positions[block_positions > last] -= size - short
        return positions
