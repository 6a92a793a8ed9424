"""Consecutive documents as arrays, and reading those of a shard from its files, in order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.document_ids import Texts
from nanotok_ray.formats.document_images import Images, images_of
from nanotok_ray.formats.stored_shard import ShardTables, StoredShard

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Mask = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DocumentBatch:
    """Documents as token ids, with everything that is stored beside the ids."""

    ids: Ids
    """Token ids back to back."""
    positions: npt.NDArray[np.int64]
    """Begin of each document in `ids`, and the end of the last: n + 1 values from 0 on."""
    mask: Mask | None = None
    """One byte per id, 1 = train on it; None: the source has no masks."""
    images: Images | None = None
    """Index of the document, start and end of each image, in order; None: it has no images."""
    document_ids: Texts | None = None
    """The value of the `id_column` of each document, "" if empty; None: no `id_column`."""
    shard: str = ""
    """The name of the shard that holds the documents."""
    first: int = 0
    """Index of the first document in the shard."""

    def __len__(self) -> int:
        return len(self.positions) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of ids of each document."""
        return np.diff(self.positions)

    def __getitem__(self, number: int) -> tuple[Ids, Mask | None, npt.NDArray[np.integer] | None]:
        """Return ids, mask and images of a document, the images as start and end, (n, 2)."""
        tokens = slice(*self.positions[number : number + 2].tolist())
        mask = None if self.mask is None else self.mask[tokens]
        if self.images is None:
            return self.ids[tokens], mask, None
        first, last = np.searchsorted(self.images[:, 0], (number, number + 1))
        return self.ids[tokens], mask, self.images[first:last, 1:]

    def documents(self) -> Iterator[tuple[Ids, Mask | None]]:
        """Yield ids and mask of each document, as views."""
        for start, end in pairwise(self.positions.tolist()):
            yield self.ids[start:end], None if self.mask is None else self.mask[start:end]

    def part(self, start: int, stop: int) -> "DocumentBatch":
        """Return adjacent documents, as views where possible."""
        first, last = self.positions[[start, stop]].tolist()
        document_ids = self.document_ids
        if document_ids is not None:
            document_ids = document_ids[0], document_ids[1][start : stop + 1]
        return DocumentBatch(
            ids=self.ids[first:last],
            positions=self.positions[start : stop + 1] - first,
            mask=None if self.mask is None else self.mask[first:last],
            images=None if self.images is None else images_of(self.images, slice(start, stop)),
            document_ids=document_ids,
            shard=self.shard,
            first=self.first + start,
        )

    def describe(self, number: int) -> str:
        """Return the name of a document, for messages."""
        return f"{self.shard}: document {self.first + number}"

    def document_id(self, number: int) -> str:
        """Return the value of the `id_column` of a document, "" if it has none.

        Raises:
            CorruptOutputError: The value is not valid UTF-8.
        """
        if self.document_ids is None:
            return ""
        data, offsets = self.document_ids
        try:
            return data[offsets[number] : offsets[number + 1]].tobytes().decode()
        except UnicodeDecodeError as error:
            raise CorruptOutputError(
                f"{self.shard}.ids: id {self.first + number} is not UTF-8"
            ) from error


class Readable(Protocol):
    """An open file."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes of the file."""


class DocumentReader:
    """The documents of a shard, whose ids and masks are read once from start to end."""

    def __init__(
        self, shard: StoredShard, tables: ShardTables, open_file: Callable[[str], Readable]
    ) -> None:
        """Open the ids and the mask by their suffixes."""
        self._name, self._item_bytes = shard.name, shard.item_bytes
        self._tables = tables
        self._ids = open_file(".bin")
        self._mask = open_file(".mask") if ".mask" in shard.sizes else None
        self.positions = tables.index.positions
        self._next = 0  # the index of the next document

    @property
    def left(self) -> int:
        """Number of documents that were not read."""
        return len(self.positions) - 1 - self._next

    def take(self, count: int) -> DocumentBatch:
        """Read the next documents.

        Raises:
            CorruptOutputError: A file has no more bytes.
        """
        first, stop = self._next, self._next + count
        self._next = stop
        positions = self.positions[first : stop + 1] - self.positions[first]
        tokens, size = int(positions[-1]), self._item_bytes
        images, document_ids = self._tables.images, self._tables.document_ids
        return DocumentBatch(
            ids=self._read(self._ids, tokens * size, ".bin").view(f"<u{size}"),
            positions=positions,
            mask=None if self._mask is None else self._read(self._mask, tokens, ".mask"),
            images=None if images is None else images.part(first, stop),
            document_ids=None if document_ids is None else document_ids.part(first, stop),
            shard=self._name,
            first=first,
        )

    def _read(self, file: Readable, num_bytes: int, suffix: str) -> npt.NDArray[np.uint8]:
        data = file.read(num_bytes)
        if len(data) != num_bytes:
            raise CorruptOutputError(f"{self._name}{suffix} ends too early")
        return np.frombuffer(data, dtype=np.uint8)
