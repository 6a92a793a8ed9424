"""An open shard, and ranges of tokens ("stretches") of its documents."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    SHARDS_INDEX_NAME,
    DocumentIds,
    DocumentImages,
    DocumentIndex,
)
from nanotok_ray.loader.files import Bytes, Files, Stored

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
"""The suffixes of a shard's files and the columns of shards.idx with their sizes (0: no file)."""

_AT_ONCE = {".idx", ".images", ".ids"}


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenShard:
    """A shard whose index has been checked. A mapped index is not copied into memory."""

    ids: Stored
    item_bytes: int
    lengths: npt.NDArray[np.int32]
    """Number of tokens of each document."""
    starts: Numbers
    """The byte in the .bin file at which each document begins."""
    masks: Stored | None
    images: DocumentImages | None
    document_ids: DocumentIds | None
    num_files: int

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the position of the first token of a document, and the position after its last."""
        start = int(self.starts[number]) // self.item_bytes
        return start, start + int(self.lengths[number])

    def first_tokens(self, numbers: Numbers) -> Numbers:
        """Return the position of the first token of each document."""
        return self.starts[numbers] // self.item_bytes

    def ids_between(self, start: int, stop: int) -> Ids:
        """Return the ids at the positions `start` to `stop` (half-open) of the shard."""
        size = self.item_bytes
        return self.ids.part(start * size, stop * size).view(f"<u{size}")


def open_shard(files: Files, name: str, row: np.void) -> OpenShard:
    """Open the files of a shard.

    Raises:
        CorruptOutputError: a file is missing, or disagrees with the other files or shards.idx.
    """
    stored = dict(stored_files(files, name, row))
    index = _index(_all_of(stored[".idx"], row, ".idx"), f"{files.url}/{name}", row)
    images, ids = stored.get(".images"), stored.get(".ids")
    return OpenShard(
        ids=stored[".bin"],
        item_bytes=int(row["item_bytes"]),
        lengths=index.lengths,
        starts=index.starts,
        masks=stored.get(".mask"),
        images=None
        if images is None
        else _images(_all_of(images, row, ".images"), f"{files.url}/{name}.images", index.lengths),
        document_ids=None
        if ids is None
        else DocumentIds(
            _all_of(ids, row, ".ids"), name=f"{files.url}/{name}.ids", documents=len(index)
        ),
        num_files=len(stored),
    )


def stored_files(files: Files, name: str, row: np.void) -> Iterator[tuple[str, Stored]]:
    """Open the files of a shard and yield the suffix of each file with the file."""
    record = row["record_sha256"].tobytes().hex()
    number = name.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]  # as in its record
    for suffix, column in SIZES.items():
        if (num_bytes := int(row[column])) or suffix in {".bin", ".idx"}:
            content, at_once = f"{record}-{number}{suffix}", suffix in _AT_ONCE
            yield (
                suffix,
                files.open(f"{name}{suffix}", num_bytes, content=content, at_once=at_once),
            )


def _index(data: Bytes, name: str, row: np.void) -> DocumentIndex:
    path = f"{name}.idx"
    index = DocumentIndex(data, name=path)
    if index.item_bytes != int(row["item_bytes"]) or len(index) != int(row["documents"]):
        raise CorruptOutputError(f"{path} does not agree with {SHARDS_INDEX_NAME}")
    if index.tokens != (tokens := int(row["tokens"])):
        raise CorruptOutputError(f"{name}.bin holds {tokens} tokens, its index says {index.tokens}")
    return index


def _all_of(stored: Stored, row: np.void, suffix: str) -> Bytes:
    """Return a whole file as a plain array, because slicing a memory map is slow."""
    whole = stored.whole
    return np.asarray(stored.part(0, int(row[SIZES[suffix]])) if whole is None else whole)


def _images(data: Bytes, name: str, lengths: npt.NDArray[np.int32]) -> DocumentImages:
    images = DocumentImages(data, name=name, documents=len(lengths))
    images.check_within(lengths)
    return images


Positions = npt.NDArray[np.intp] | slice


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pieces:
    """The locations of stretches of documents in arrays."""

    ids: list[Ids] = field(default_factory=list)
    """The arrays that contain the stretches."""
    masks: list[Mask | None] | None
    """The mask of each array, None for a source without masks; None: masks were not requested."""
    which: Numbers
    """For each stretch, the index of its array."""
    offsets: Numbers
    """For each stretch, the position of its first id in its array."""

    def add(
        self, shard: OpenShard, chosen: Positions, first: Numbers, lengths: Numbers, *, copy: bool
    ) -> None:
        """Add stretches of one shard, which become parts of one array.

        Args:
            shard: the shard.
            chosen: the indices of these stretches among all stretches.
            first: the position in the shard of the first id of each stretch.
            lengths: the number of ids of each stretch.
            copy: copy the ids even of a mapped file, so that the file need not stay open.
        """
        self.which[chosen] = len(self.ids)
        whole, mask = _plain(shard.ids), shard.masks
        if whole is not None and not copy:
            self.offsets[chosen] = first
            self.ids.append(whole.view(f"<u{shard.item_bytes}"))
            if self.masks is not None:
                self.masks.append(None if mask is None else _plain(mask))
            return
        order = np.argsort(first, kind="stable")  # adjacent parts are fetched together
        starts, chosen_lengths = first[order], lengths[order]
        offsets = np.empty_like(chosen_lengths)
        offsets[order] = np.cumsum(chosen_lengths) - chosen_lengths
        self.offsets[chosen] = offsets
        size = shard.item_bytes
        self.ids.append(_copied(shard.ids, starts * size, chosen_lengths * size).view(f"<u{size}"))
        if self.masks is not None:
            self.masks.append(None if mask is None else _copied(mask, starts, chosen_lengths))


def _plain(stored: Stored) -> Bytes | None:
    """Return a mapped file as a plain array, or None; slicing numpy's memmap is slow."""
    return None if stored.whole is None else np.asarray(stored.whole)


def _copied(stored: Stored, starts: Numbers, lengths: Numbers) -> Bytes:
    """Return parts of a file, concatenated."""
    whole = _plain(stored)
    bounds = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    if whole is None:
        return np.concatenate([stored.part(start, stop) for start, stop in bounds])
    return np.concatenate([whole[start:stop] for start, stop in bounds])
