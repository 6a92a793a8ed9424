"""What is asked of the ids and masks of a shard while their files are read once, block by block.

Takes the bytes of a file as they come; holds sums, and where image tokens begin and end. Does not
know what they must be.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class IdScan:
    """Ids: the largest, how often each special token is there, where runs of image tokens are."""

    def __init__(
        self,
        item_bytes: int,
        *,
        special_ids: Sequence[int] = (),
        image_id: int | None = None,
        most_images: int = 0,
    ) -> None:
        """Take the special tokens' ids in rising order; where images are is noted of so many."""
        self._type = np.dtype(f"<u{item_bytes}")
        self._special = np.array(special_ids, dtype=np.int64)
        self._image_id, self._most_edges = image_id, 2 * most_images + 2
        self._rest = b""
        self._edges: list[npt.NDArray[np.int64]] = []
        self._num_edges = self._seen = 0
        self._in_image = False
        self.largest = -1
        """-1 of an empty file."""
        self.special_counts = np.zeros(len(special_ids), dtype=np.int64)

    def add(self, block: memoryview) -> None:
        """Look at the ids; bytes that are none, at the end, are left to the size's check."""
        data = self._rest + block if self._rest else block
        whole = len(data) - len(data) % self._type.itemsize
        self._rest = bytes(data[whole:])
        if not whole:
            return
        ids = np.frombuffer(data[:whole], dtype=self._type)
        self.largest = max(self.largest, int(ids.max()))
        self._count(ids)
        if self._image_id is not None and self._num_edges <= self._most_edges:
            self._note(ids)
        self._seen += len(ids)

    def _count(self, ids: npt.NDArray[np.unsignedinteger]) -> None:
        if not len(self._special) or self.largest < self._special[0]:
            return
        high = ids[ids >= self._special[0]]
        place = np.minimum(np.searchsorted(self._special, high), len(self._special) - 1)
        known = place[self._special[place] == high]
        self.special_counts += np.bincount(known, minlength=len(self._special))

    def _note(self, ids: npt.NDArray[np.unsignedinteger]) -> None:
        is_image = ids == self._image_id
        changes = np.flatnonzero(is_image[1:] != is_image[:-1]) + 1
        if bool(is_image[0]) != self._in_image:
            changes = np.concatenate([[0], changes])
        self._in_image = bool(is_image[-1])
        self._edges.append(changes + self._seen)
        self._num_edges += len(changes)

    @property
    def saw_images(self) -> bool:
        """Whether it looked for image tokens."""
        return self._image_id is not None

    @property
    def image_edges(self) -> npt.NDArray[np.int64]:
        """Where runs of image tokens begin and end, in turn, in all of the file.

        More than belong to so many images are cut off.
        """
        last = [self._seen] if self._in_image else []
        return np.concatenate([np.zeros(0, np.int64), *self._edges, last]).astype(np.int64)


class MaskScan:
    """Bytes of a mask: the largest, and how many tokens are trained on."""

    def __init__(self) -> None:
        self.largest = -1
        """-1 of an empty file."""
        self.ones = 0

    def add(self, block: memoryview) -> None:
        """Look at the bytes."""
        if len(block):
            flags = np.frombuffer(block, dtype=np.uint8)
            self.largest = max(self.largest, int(flags.max()))
            self.ones += int(np.count_nonzero(flags))
