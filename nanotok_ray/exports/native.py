"""Reads the documents of a native shard in batches, from a disk or a remote store.

Batches contain whole documents with ids, masks, image positions and document ids. Each file is
read once, from start to end.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import Images, ShardTables, StoredShard, read_digests
from nanotok_ray.storage import Folder, VerifiedFile

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.uint8]

BATCH_BYTES = 16 << 20
"""Bytes of ids in a batch, unless a single document is larger."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Consecutive documents of a shard."""

    first: int
    """Index of the first document in the shard."""
    ids: Ids
    """Token ids back to back."""
    positions: Positions
    """Begin of each document in `ids`, and the end of the last: n + 1 values."""
    mask: Mask | None
    """One byte per id, 1 = train on it; None: the source has no masks."""
    images: Images | None
    """Index of the document, start and end of each image, of shape (m, 3); None: no images."""
    document_ids: tuple[str, ...] | None
    """The value of the `id_column` of each document, "" if empty; None: no `id_column`."""

    def __len__(self) -> int:
        return len(self.positions) - 1

    def documents(self) -> Iterator[tuple[Ids, Mask | None]]:
        """Yield ids and mask of each document, as views."""
        bounds = self.positions.tolist()
        for start, end in pairwise(bounds):
            yield self.ids[start:end], None if self.mask is None else self.mask[start:end]


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeShard:
    """A shard of a finished output; its content is compared with the sha256 of its record."""

    out: Folder
    facts: StoredShard
    batch_bytes: int = BATCH_BYTES
    """Bytes of ids in a batch, unless a single document is larger."""

    def positions(self) -> Positions:
        """Return the start of each document and the end of the last in tokens: n + 1 values.

        Raises:
            CorruptOutputError: The index is invalid, or belongs to another shard.
        """
        data = self._whole(".idx", read_digests(self.out, self.facts))
        return self.facts.index(data, name=self.out.join(f"{self.facts.name}.idx")).positions

    def batches(self) -> Iterator[Batch]:
        """Yield all documents in batches of about `batch_bytes` of ids.

        Raises:
            CorruptOutputError: A file is missing, or differs from its record; for ids and masks
                this is known only after the last batch.
        """
        digests = read_digests(self.out, self.facts)
        tables = ShardTables.of(
            self.facts, lambda suffix: self._whole(suffix, digests), folder=self.out.url
        )
        positions, item_bytes = tables.index.positions, self.facts.item_bytes
        images, document_ids = tables.images, tables.document_ids
        with ExitStack() as stack:
            data = stack.enter_context(self._open(".bin", digests))
            mask = stack.enter_context(self._open(".mask", digests)) if ".mask" in digests else None
            for first, last in _cuts(positions, self.batch_bytes // item_bytes):
                start, end = int(positions[first]), int(positions[last])
                yield Batch(
                    first=first,
                    ids=_array(data, (end - start) * item_bytes).view(f"<u{item_bytes}"),
                    positions=positions[first : last + 1] - start,
                    mask=None if mask is None else _array(mask, end - start),
                    images=None if images is None else images.part(first, last),
                    document_ids=None
                    if document_ids is None
                    else tuple(document_ids[number] for number in range(first, last)),
                )

    def _open(
        self, suffix: str, digests: Mapping[str, str]
    ) -> AbstractContextManager[VerifiedFile]:
        name = self.facts.name + suffix
        url = self.out.join(name)
        if self.out.size(name) != self.facts.sizes[suffix]:
            raise CorruptOutputError(
                f"{url} is missing or has another size than shards.idx says: "
                f"{self.facts.sizes[suffix]:,} bytes; `nanotok verify {self.out.url}` says more"
            )
        return self.out.open_verified(name, sha256=digests[suffix])

    def _whole(self, suffix: str, digests: Mapping[str, str]) -> npt.NDArray[np.uint8]:
        with self._open(suffix, digests) as file:
            return _array(file, self.facts.sizes[suffix])


def _array(file: VerifiedFile, num_bytes: int) -> npt.NDArray[np.uint8]:
    """Return the next bytes of a file whose size is known."""
    data = file.read(num_bytes)
    if len(data) != num_bytes:
        raise CorruptOutputError(f"{file.name} ends too early")
    return np.frombuffer(data, dtype=np.uint8)


def _cuts(positions: Positions, limit: int) -> Iterator[tuple[int, int]]:
    """Yield first and last + 1 of documents with at most `limit` tokens, or of one document.

    >>> list(_cuts(np.array([0, 3, 4, 9, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 5)]
    """
    first, count = 0, len(positions) - 1
    while first < count:
        last = int(np.searchsorted(positions, positions[first] + limit, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last
