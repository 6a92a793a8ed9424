"""One open shard: its files against each other, and where its documents lie in them.

Takes the files of an output and a row of shards.idx. Does not know other shards.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.document_ids import DocumentIds
from nanotok_ray.formats.document_images import DocumentImages
from nanotok_ray.formats.document_index import checked_positions, index_columns
from nanotok_ray.formats.manifest import SHARDS_INDEX_NAME
from nanotok_ray.reader.files import Bytes, Files, Stored

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Mask = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

SIZES = {
    ".bin": "bin_bytes",
    ".idx": "idx_bytes",
    ".mask": "mask_bytes",
    ".images": "images_bytes",
    ".ids": "ids_bytes",
}
"""The files of a shard by suffix, and the column of shards.idx that has the size: 0 for none."""

_AT_ONCE = {".idx", ".images", ".ids"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenShard:
    """A shard whose index has been checked. Of a mapped index nothing is held in memory."""

    ids: Stored
    item_bytes: int
    lengths: npt.NDArray[np.int32]
    """Tokens of each document."""
    starts: Numbers
    """The byte at which each begins."""
    masks: Stored | None
    images: DocumentImages | None
    document_ids: DocumentIds | None
    num_files: int

    def bounds(self, number: int) -> tuple[int, int]:
        """Give where a document begins and ends, in tokens."""
        start = int(self.starts[number]) // self.item_bytes
        return start, start + int(self.lengths[number])

    def first_tokens(self, numbers: Numbers) -> Numbers:
        """Give where documents begin, in tokens."""
        return self.starts[numbers] // self.item_bytes

    def ids_between(self, start: int, stop: int) -> Ids:
        """Give ids by their places in the shard."""
        size = self.item_bytes
        return self.ids.part(start * size, stop * size).view(f"<u{size}")


def open_shard(files: Files, name: str, row: np.void) -> OpenShard:
    """Open the files of a shard.

    Raises:
        CorruptOutputError: one is missing, or does not agree with the others or with shards.idx.
    """
    stored = dict(stored_files(files, name, row))
    lengths, starts = _columns(_all_of(stored[".idx"], row, ".idx"), f"{files.url}/{name}", row)
    images, ids = stored.get(".images"), stored.get(".ids")
    documents = len(lengths)
    return OpenShard(
        ids=stored[".bin"],
        item_bytes=int(row["item_bytes"]),
        lengths=lengths,
        starts=starts,
        masks=stored.get(".mask"),
        images=None
        if images is None
        else _images(_all_of(images, row, ".images"), f"{files.url}/{name}.images", lengths),
        document_ids=None
        if ids is None
        else DocumentIds(
            _all_of(ids, row, ".ids"), name=f"{files.url}/{name}.ids", documents=documents
        ),
        num_files=len(stored),
    )


def stored_files(files: Files, name: str, row: np.void) -> Iterator[tuple[str, Stored]]:
    """Open those files that a shard has; give the suffix of each, and the file."""
    record = row["record_sha256"].tobytes().hex()
    number = name.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]  # in its record
    for suffix, column in SIZES.items():
        if (num_bytes := int(row[column])) or suffix in {".bin", ".idx"}:
            content, at_once = f"{record}-{number}{suffix}", suffix in _AT_ONCE
            yield (
                suffix,
                files.open(f"{name}{suffix}", num_bytes, content=content, at_once=at_once),
            )


def _columns(
    data: Bytes, name: str, row: np.void
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    path = f"{name}.idx"
    lengths, starts, item_bytes = index_columns(data, name=path)
    positions = checked_positions(lengths, starts, item_bytes, name=path)
    if item_bytes != int(row["item_bytes"]) or len(lengths) != int(row["documents"]):
        raise CorruptOutputError(f"{path} does not agree with {SHARDS_INDEX_NAME}")
    tokens = int(row["tokens"])
    if int(positions[-1]) != tokens:
        raise CorruptOutputError(
            f"{name}.bin holds {tokens} tokens, its index says {positions[-1]}"
        )
    return lengths, starts


def _all_of(stored: Stored, row: np.void, suffix: str) -> Bytes:
    """Give all of a file, plainly: views of memory maps are slow to cut."""
    whole = stored.whole
    return np.asarray(stored.part(0, int(row[SIZES[suffix]])) if whole is None else whole)


def _images(data: Bytes, name: str, lengths: npt.NDArray[np.int32]) -> DocumentImages:
    images = DocumentImages(data, name=name, documents=len(lengths))
    images.check_within(lengths)
    return images
