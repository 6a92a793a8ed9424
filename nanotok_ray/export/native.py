"""The documents of a native shard, in batches of whole documents, from a disk or a remote store.

Takes a shard as shards.idx has it; gives ids, masks, image positions and document ids. Each file
is read once, from front to back. Does not know layouts.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_ids import DocumentIds
from nanotok_ray.document_images import DocumentImages, Images
from nanotok_ray.document_index import unpack_index
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.export.corpus import ShardFacts
from nanotok_ray.storage import Folder, open_input

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.uint8]

BATCH_BYTES = 16 << 20
"""Bytes of ids in a batch, unless a single document has more."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Neighbouring documents of a shard."""

    first: int
    """The place of the first of them in the shard."""
    ids: Ids
    """Token ids back to back."""
    positions: Positions
    """Where each document begins in `ids`, and the last ends: n + 1."""
    mask: Mask | None
    """A byte for each id, 1 = train on it; None: the source has no masks."""
    images: Images | None
    """(m, 3): document among these, start and end of each image; None: the source has none."""
    document_ids: tuple[str, ...] | None
    """What the `id_column` says of each, "" where nothing; None: the source has none."""

    def __len__(self) -> int:
        return len(self.positions) - 1

    def documents(self) -> Iterator[tuple[Ids, Mask | None]]:
        """Give ids and mask of each document, as views."""
        bounds = self.positions.tolist()
        for start, end in pairwise(bounds):
            yield self.ids[start:end], None if self.mask is None else self.mask[start:end]


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeShard:
    """One shard of a finished output."""

    out: Folder
    facts: ShardFacts
    item_bytes: int

    def positions(self) -> Positions:
        """Read where each document begins, and the last ends, in tokens: n + 1.

        Raises:
            CorruptOutputError: the index is not one, or is of another shard.
        """
        name = f"{self.facts.name}.idx"
        data = np.frombuffer(self.out.read_bytes(name), dtype=np.uint8)
        positions, own_bytes = unpack_index(data, name=self.out.join(name))
        said = (self.facts.documents, self.facts.tokens, self.item_bytes)
        if (len(positions) - 1, int(positions[-1]), own_bytes) != said:
            raise CorruptOutputError(f"{self.out.join(name)} does not agree with shards.idx")
        return positions

    def batches(self) -> Iterator[Batch]:
        """Read all documents, in batches of about `BATCH_BYTES` of ids.

        Raises:
            CorruptOutputError: a file is missing, or is not what shards.idx says.
        """
        positions = self.positions()
        images, document_ids = self._images(), self._document_ids()
        with ExitStack() as stack:
            data = self._open(stack, ".bin")
            mask = self._open(stack, ".mask") if ".mask" in self.facts.sizes else None
            for first, last in _cuts(positions, BATCH_BYTES // self.item_bytes):
                start, end = int(positions[first]), int(positions[last])
                own = None if mask is None else self._read(mask, end - start)
                yield Batch(
                    first=first,
                    ids=self._read(data, (end - start) * self.item_bytes).view(self._dtype),
                    positions=positions[first : last + 1] - start,
                    mask=own,
                    images=None if images is None else images.part(first, last),
                    document_ids=None
                    if document_ids is None
                    else tuple(document_ids[number] for number in range(first, last)),
                )

    def _open(self, stack: ExitStack, suffix: str) -> BinaryIO:
        name = self.facts.name + suffix
        if self.out.size(name) != self.facts.sizes[suffix]:
            raise CorruptOutputError(
                f"{self.out.join(name)} is missing or has another size than shards.idx says: "
                f"{self.facts.sizes[suffix]:,} bytes; `nanotok verify {self.out.url}` says more"
            )
        return stack.enter_context(open_input(self.out.join(name)))

    @property
    def _dtype(self) -> str:
        return f"<u{self.item_bytes}"

    def _read(self, file: BinaryIO, number: int) -> npt.NDArray[np.uint8]:
        data = file.read(number)
        if len(data) != number:
            raise CorruptOutputError(f"{self.out.join(self.facts.name)}: a file ends too early")
        return np.frombuffer(data, dtype=np.uint8)

    def _images(self) -> DocumentImages | None:
        if ".images" not in self.facts.sizes:
            return None
        name = f"{self.facts.name}.images"
        data = np.frombuffer(self.out.read_bytes(name), dtype=np.uint8)
        return DocumentImages(data, name=self.out.join(name), documents=self.facts.documents)

    def _document_ids(self) -> DocumentIds | None:
        if ".ids" not in self.facts.sizes:
            return None
        name = f"{self.facts.name}.ids"
        data = np.frombuffer(self.out.read_bytes(name), dtype=np.uint8)
        return DocumentIds(data, name=self.out.join(name), documents=self.facts.documents)


def _cuts(positions: Positions, most: int) -> Iterator[tuple[int, int]]:
    """Give first and last + 1 of documents that have at most so many tokens, or are one.

    >>> list(_cuts(np.array([0, 3, 4, 9, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 5)]
    """
    first, count = 0, len(positions) - 1
    while first < count:
        last = int(np.searchsorted(positions, positions[first] + most, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last
