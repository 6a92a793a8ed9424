"""Duplicate documents: hashes of the documents of slices, and lists of those that are left out.

A document is a duplicate if an earlier one has the same 128 bits of BLAKE2b, in the order of the
plan: sources as in the recipe, slices in order, documents as they are read. Hashes are compared
in parts, each with a range of all hashes, so that memory is bounded.
"""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import DropList, HashBucket, HashRecord, SliceName, StoredFile, sha256_of
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder

LISTS: Final = "quarantine/duplicates/"
"""The folder of the lists in the output folder."""

NUM_BUCKETS: Final = 256
_HASH_BYTES: Final = 16
_ROW: Final = np.dtype([("high", ">u8"), ("low", ">u8"), ("at", "<u4")])
"""A row of a file of hashes: the hash of a document, and its number among those of the slice."""
_BUCKET_SHIFT: Final = np.uint64(56)  # the first byte
DUPLICATE: Final = np.dtype([("slice", "<u4"), ("at", "<u4")])
"""A row of a file of duplicates: the number of the slice, and the number of the document in it."""


def hash_slice(
    reading: SliceReading, *, rule: str, folder: Folder, name: str, key: str
) -> HashRecord:
    """Write the hashes of the documents of a slice, sorted, and return their record.

    Args:
        reading: All documents of the slice.
        rule: `exact` or `exact-normalized`.
        folder: The work folder.
        name: The path of the file in it.
        key: The key of the record.

    Raises:
        SourceError, TransientIOError: The input cannot be read.
    """
    digests: list[bytes] = []
    for _, batch in reading:
        documents = batch.documents
        if rule != "exact":
            data, offsets = _core.fold_documents(documents.data, documents.offsets)
            documents = Documents(data=data, offsets=offsets)
        digests += (
            hashlib.blake2b(document, digest_size=_HASH_BYTES).digest() for document in documents
        )
    rows = np.zeros(len(digests), dtype=_ROW)
    halves = np.frombuffer(b"".join(digests), dtype=">u8").reshape(-1, 2)
    rows["high"], rows["low"], rows["at"] = halves[:, 0], halves[:, 1], np.arange(len(digests))
    rows = rows[np.lexsort((rows["low"], rows["high"]))]
    ends = np.searchsorted(rows["high"] >> _BUCKET_SHIFT, np.arange(1, NUM_BUCKETS + 1))
    starts = [0, *ends[:-1].tolist()]
    with folder.create(name) as file:
        file.write(rows.tobytes())
    slice_ = reading.slice
    return HashRecord(
        stage="hash",
        key=key,
        slice=SliceName(source=slice_.source, split=slice_.split, number=slice_.number),
        documents=len(rows),
        buckets=tuple(
            HashBucket(documents=end - start, crc32=zlib.crc32(rows[start:end].tobytes()))
            for start, end in zip(starts, ends.tolist(), strict=True)
        ),
        files=(StoredFile(name=name, size=file.size, sha256=file.sha256),),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class HashRange:
    """Consecutive buckets of a file of hashes."""

    name: str
    first_row: int
    buckets: tuple[HashBucket, ...]

    @classmethod
    def of(cls, record: HashRecord, *, part: int, num_parts: int) -> "HashRange":
        """Return the buckets of a part; the number of parts is a power of two."""
        count = NUM_BUCKETS // num_parts
        first = part * count
        return cls(
            name=record.files[0].name,
            first_row=sum(bucket.documents for bucket in record.buckets[:first]),
            buckets=record.buckets[first : first + count],
        )

    @property
    def num_rows(self) -> int:
        """The number of hashes."""
        return sum(bucket.documents for bucket in self.buckets)

    @property
    def num_bytes(self) -> int:
        """The bytes of the hashes."""
        return self.num_rows * _ROW.itemsize

    def read(self, folder: Folder) -> NDArray[np.void]:
        """Return the rows.

        Raises:
            CorruptOutputError: The file is damaged.
        """
        data = b""
        if self.num_rows:
            with folder.open(self.name) as file:
                file.seek(self.first_row * _ROW.itemsize)
                data = file.read(self.num_bytes)
        start = 0
        for bucket in self.buckets:
            end = start + bucket.documents * _ROW.itemsize
            if len(data) < end or zlib.crc32(data[start:end]) != bucket.crc32:
                raise CorruptOutputError(
                    f"{folder.join(self.name)} is damaged: remove it, and run the job again, which "
                    "makes it anew"
                )
            start = end
        return np.frombuffer(data, dtype=_ROW)


def find_duplicates(ranges: Sequence[HashRange], folder: Folder) -> NDArray[np.void]:
    """Return the duplicates in a part of all hashes, by slice and document.

    Args:
        ranges: The part of each slice, in the order of the plan.
        folder: The work folder.

    Raises:
        CorruptOutputError: A file is damaged.
    """
    read = [one.read(folder) for one in ranges]
    rows = np.concatenate([np.zeros(0, dtype=_ROW), *read])
    slices = np.repeat(np.arange(len(read), dtype=np.uint32), [len(one) for one in read])
    # The rows of a slice with equal hashes are in order, and the sort keeps the order of slices.
    order = np.lexsort((rows["low"], rows["high"]))
    high, low = rows["high"][order], rows["low"][order]
    is_later = np.zeros(len(rows), dtype=bool)
    is_later[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    duplicates = np.zeros(int(is_later.sum()), dtype=DUPLICATE)
    duplicates["slice"] = slices[order][is_later]
    duplicates["at"] = rows["at"][order][is_later]
    return np.sort(duplicates, order=("slice", "at"))


def write_lists(
    parts: Sequence[NDArray[np.void]], *, num_slices: int, folder: Folder
) -> Iterator[DropList | None]:
    """Write the list of each slice into the output folder, and yield it; None without duplicates.

    A list has the numbers of the documents, as u32 in increasing order. Its name is its sha256, so
    that equal lists are one file.
    """
    rows = np.concatenate([np.zeros(0, dtype=DUPLICATE), *parts])
    rows = rows[np.argsort(rows["slice"], kind="stable")]
    bounds = np.searchsorted(rows["slice"], np.arange(num_slices + 1))
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start == end:
            yield None
            continue
        data = np.sort(rows["at"][start:end]).tobytes()
        sha256 = sha256_of(data)
        dropped = DropList(name=f"{LISTS}{sha256[:32]}.u32", sha256=sha256, documents=end - start)
        if folder.size(dropped.name) != len(data):
            folder.write_bytes(dropped.name, data)
        yield dropped
