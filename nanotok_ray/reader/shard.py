"""One open shard: its files against each other, and where its documents lie in them.

Takes the files of an output and a row of shards.idx. Does not know other shards.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_ids import DocumentIds
from nanotok_ray.document_images import DocumentImages
from nanotok_ray.document_index import unpack_index
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.manifest import SHARDS_INDEX_NAME
from nanotok_ray.reader.files import Bytes, Files, Stored

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenShard:
    """A shard whose index has been checked."""

    ids: Stored
    item_bytes: int
    positions: npt.NDArray[np.int64]
    """Where each document begins, and the last ends, in tokens: n + 1."""
    masks: Stored | None
    images: DocumentImages | None
    document_ids: DocumentIds | None

    def bounds(self, number: int) -> tuple[int, int]:
        """Give where a document begins and ends."""
        return int(self.positions[number]), int(self.positions[number + 1])

    def ids_between(self, start: int, stop: int) -> Ids:
        """Give ids by their places in the shard."""
        size = self.item_bytes
        return self.ids.part(start * size, stop * size).view(f"<u{size}")


def open_shard(files: Files, name: str, row: np.void) -> OpenShard:
    """Open the files of a shard.

    Raises:
        CorruptOutputError: one is missing, or does not agree with the others or with shards.idx.
    """
    item_bytes = int(row["item_bytes"])
    positions = _positions(files, name, row)
    mask_bytes = int(row["mask_bytes"])
    documents = len(positions) - 1
    images = _whole(files, f"{name}.images", int(row["images_bytes"]))
    document_ids = _whole(files, f"{name}.ids", int(row["ids_bytes"]))
    return OpenShard(
        ids=files.open(f"{name}.bin", int(row["bin_bytes"])),
        item_bytes=item_bytes,
        positions=positions,
        masks=files.open(f"{name}.mask", mask_bytes) if mask_bytes else None,
        images=None
        if images is None
        else _images(images, name=f"{files.url}/{name}.images", positions=positions),
        document_ids=None
        if document_ids is None
        else DocumentIds(document_ids, name=f"{files.url}/{name}.ids", documents=documents),
    )


def _positions(files: Files, name: str, row: np.void) -> npt.NDArray[np.int64]:
    path = f"{files.url}/{name}.idx"
    num_bytes = int(row["idx_bytes"])
    data = _whole(files, f"{name}.idx", num_bytes)
    assert data is not None
    positions, item_bytes = unpack_index(data, name=path)
    if item_bytes != int(row["item_bytes"]) or len(positions) != int(row["documents"]) + 1:
        raise CorruptOutputError(f"{path} does not agree with {SHARDS_INDEX_NAME}")
    tokens = int(row["tokens"])
    if int(positions[-1]) != tokens:
        raise CorruptOutputError(
            f"{name}.bin holds {tokens} tokens, its index says {positions[-1]}"
        )
    return positions


def _whole(files: Files, name: str, num_bytes: int) -> Bytes | None:
    if not num_bytes:
        return None
    stored = files.open(name, num_bytes)
    return stored.part(0, num_bytes) if stored.whole is None else stored.whole


def _images(data: Bytes, *, name: str, positions: npt.NDArray[np.int64]) -> DocumentImages:
    images = DocumentImages(data, name=name, documents=len(positions) - 1)
    images.check_within(np.diff(positions))
    return images
