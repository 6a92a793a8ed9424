"""A shard as shards.idx and its record describe it, and the files beside its ids."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.document_ids import DocumentIds
from nanotok_ray.formats.document_images import DocumentImages
from nanotok_ray.formats.document_index import DocumentIndex
from nanotok_ray.formats.names import RECORDS
from nanotok_ray.formats.records import ShardRecord

MASKED = frozenset({"chat", "vision"})
"""Kinds of sources whose shards have a NAME.mask."""
ILLUSTRATED = frozenset({"vision"})
"""Kinds of sources whose shards have a NAME.images."""

SHARD_SUFFIXES = (".bin", ".idx", ".mask", ".ids", ".images")
"""The suffixes of all files that a shard can have."""

_Bytes = npt.NDArray[np.uint8]


def suffixes_of(kind: str, *, with_document_ids: bool) -> tuple[str, ...]:
    """Return the suffixes of the files of each shard of a source.

    >>> suffixes_of("chat", with_document_ids=False)
    ('.bin', '.idx', '.mask')
    """
    absent = {
        ".mask": kind not in MASKED,
        ".ids": not with_document_ids,
        ".images": kind not in ILLUSTRATED,
    }
    return tuple(suffix for suffix in SHARD_SUFFIXES if not absent.get(suffix))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredShard:
    """A shard of an output: its name, its size and its files."""

    name: str
    """Path in the output folder without suffix."""
    source: str
    split: str
    item_bytes: int
    """Bytes of an id: 2 or 4."""
    documents: int
    tokens: int
    sizes: Mapping[str, int]
    """Bytes of each of its files by suffix."""
    record_sha256: str
    """The sha256 (hex) of the record that names its files."""

    @property
    def record_name(self) -> str:
        """Path of the record of its files."""
        return record_name(self.name)

    @property
    def num_bytes(self) -> int:
        """Bytes of all of its files."""
        return sum(self.sizes.values())

    def index(self, data: _Bytes, *, name: str) -> DocumentIndex:
        """Return the index of its documents from the bytes of NAME.idx; errors use `name`.

        Raises:
            CorruptOutputError: The index is invalid, or belongs to another shard.
        """
        index = DocumentIndex(data, name=name)
        expected = (self.documents, self.tokens, self.item_bytes)
        if (len(index), index.tokens, index.item_bytes) != expected:
            raise CorruptOutputError(
                f"{name} has {len(index)} documents of {index.tokens} tokens of {index.item_bytes} "
                f"bytes, expected {self.documents} of {self.tokens} of {self.item_bytes}"
            )
        return index

    def images(self, data: _Bytes, *, name: str, index: DocumentIndex | None) -> DocumentImages:
        """Return the images of its documents from the bytes of NAME.images.

        Raises:
            CorruptOutputError: The file is invalid, belongs to another shard, or contradicts the
                index of the documents.
        """
        images = DocumentImages(data, name=name, documents=self.documents)
        if index is not None:
            images.check_within(index.lengths)
        return images

    def document_ids(self, data: _Bytes, *, name: str) -> DocumentIds:
        """Return the ids of its documents from the bytes of NAME.ids.

        Raises:
            CorruptOutputError: The file is invalid, or belongs to another shard.
        """
        return DocumentIds(data, name=name, documents=self.documents)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ShardTables:
    """The files of a shard beside ids and masks, checked against each other."""

    index: DocumentIndex
    images: DocumentImages | None
    document_ids: DocumentIds | None

    @classmethod
    def of(cls, shard: StoredShard, read: Callable[[str], _Bytes], *, folder: str) -> "ShardTables":
        """Return the tables of a shard.

        Args:
            shard: the shard.
            read: returns the bytes of a file, given its suffix.
            folder: path or URL of the output folder, for errors.

        Raises:
            CorruptOutputError: a file is invalid, or disagrees with the shard or the other files.
        """
        name, sizes = f"{folder}/{shard.name}", shard.sizes
        index = shard.index(read(".idx"), name=f"{name}.idx")
        images = document_ids = None
        if ".images" in sizes:
            images = shard.images(read(".images"), name=f"{name}.images", index=index)
        if ".ids" in sizes:
            document_ids = shard.document_ids(read(".ids"), name=f"{name}.ids")
        return cls(index=index, images=images, document_ids=document_ids)


def shards_of(record: ShardRecord, *, item_bytes: int, sha256: str) -> Iterator[StoredShard]:
    """Yield the shards that a record names; `sha256` (hex) is that of the record."""
    sizes = {file.name: file.size for file in record.files}
    for shard in record.shards:
        names = {suffix: f"{shard.name}{suffix}" for suffix in SHARD_SUFFIXES}
        yield StoredShard(
            name=shard.name,
            source=record.slice.source,
            split=record.slice.split,
            item_bytes=item_bytes,
            documents=shard.documents,
            tokens=shard.tokens,
            sizes={suffix: sizes[name] for suffix, name in names.items() if name in sizes},
            record_sha256=sha256,
        )


def record_name(shard: str) -> str:
    """Return the path of the record of a shard: the path of the shard without its number.

    >>> record_name("web/train/part-00003-000-0123456789abcdef")
    'records/tokenize/web/train/part-00003-0123456789abcdef.json'
    """
    slice_name, _, key = shard.rpartition("-")
    return f"{RECORDS}{slice_name.rpartition('-')[0]}-{key}.json"
