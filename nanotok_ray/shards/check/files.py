"""The check of the files of a slice's shards, which are read once, and of sums in the record."""

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    DocumentIds,
    DocumentImages,
    DocumentIndex,
    Shard,
    ShardRecord,
    StoredFile,
)
from nanotok_ray.shards.check.record import Seen, seen_problems, size_problem
from nanotok_ray.sources import entry_of
from nanotok_ray.storage import Folder

BLOCK_BYTES = 1 << 20
"""Bytes read at a time: they stay in a core's cache between hashing and the other checks; a
multiple of the size of an id.
"""

MAX_LINE_BYTES = 16 << 20
"""Limit of a line of a quarantine file, which usually has a few hundred bytes."""


class Use(Protocol):
    """A consumer of the bytes of a file besides hashing."""

    def add(self, block: memoryview) -> None:
        """Process the next bytes; the buffer is reused after the call."""


class AllBytes:
    """Stores all bytes of a file."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, block: memoryview) -> None:
        """Append."""
        self.data += block


class Lines:
    """Counts the entries of a quarantine file by the kind of their reason."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.num_bytes = 0
        """Bytes of the quarantined documents."""
        self.rest = b""
        self.problem: str | None = None
        """The problem of the first line that is not an entry."""

    def add(self, block: memoryview) -> None:
        """Count the lines that end in this block."""
        if self.problem is not None:
            return
        *lines, self.rest = (self.rest + bytes(block)).split(b"\n")
        for line in lines:
            self._enter(line)
        if len(self.rest) > MAX_LINE_BYTES:
            self.problem = f"a line of more than {MAX_LINE_BYTES:,} bytes"

    def _enter(self, line: bytes) -> None:
        entry = entry_of(line)
        if entry is None:
            number = self.kinds.total() + 1
            self.problem = self.problem or f"line {number} is not a quarantine entry"
            return
        self.kinds[entry.kind] += 1
        self.num_bytes += entry.bytes


def read_once(folder: Folder, name: str, *, limit: int, use: Use) -> tuple[int, str]:
    """Return size and sha256 (hex) of a file; reading stops soon after `limit` bytes.

    Raises:
        FileNotFoundError: The file does not exist.
        CorruptOutputError: The name or a link leads out of the folder.
    """
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BLOCK_BYTES))
    with folder.open(name) as file:
        while size <= limit and (length := file.readinto(buffer)):  # type: ignore[attr-defined]
            block = buffer[:length]
            digest.update(block)
            use.add(block)
            size += length
    return size, digest.hexdigest()


def _check_bytes(folder: Folder, file: StoredFile, use: Use) -> Iterator[str]:
    """Read a file and compare size and sha256; its bytes are also passed to `use`."""
    name = file.name
    try:
        size, sha256 = read_once(folder, name, limit=file.size, use=use)
    except FileNotFoundError:
        yield from size_problem(file, None)
        return
    except CorruptOutputError as error:
        yield str(error)
        return
    if size != file.size:
        yield from size_problem(file, folder.size(name))
    elif sha256 != file.sha256:
        yield f"{name} has another sha256 than its record says: its bytes were changed"


def is_whole(folder: Folder, file: StoredFile, use: Use) -> Generator[str, None, bool]:
    """Return whether a file has the bytes of its record; they are also passed to `use`."""
    problems = list(_check_bytes(folder, file, use))
    yield from problems
    return not problems


def checked_bytes(
    folder: Folder, file: StoredFile
) -> Generator[str, None, npt.NDArray[np.uint8] | None]:
    """Return the bytes of a file, or None after yielding problems."""
    seen = AllBytes()
    if not (yield from is_whole(folder, file, seen)):
        return None
    return np.frombuffer(seen.data, dtype=np.uint8)


class IdScan:
    """Statistics of ids: the maximum, counts of special tokens, positions of image tokens."""

    def __init__(
        self,
        item_bytes: int,
        *,
        special_ids: Sequence[int] = (),
        image_id: int | None = None,
        max_images: int = 0,
    ) -> None:
        """Store the sorted ids of special tokens, and the limit of images with positions."""
        self._type = np.dtype(f"<u{item_bytes}")
        self._special = np.array(special_ids, dtype=np.int64)
        self._image_id, self._max_edges = image_id, 2 * max_images + 2
        self._rest = b""
        self._edges: list[npt.NDArray[np.int64]] = []
        self._num_edges = self._seen = 0
        self._in_image = False
        self.largest = -1
        """-1 for an empty file."""
        self.special_counts = np.zeros(len(special_ids), dtype=np.int64)

    def add(self, block: memoryview) -> None:
        """Scan ids; an incomplete id at the end is detected by the check of the size."""
        data = self._rest + block if self._rest else block
        whole = len(data) - len(data) % self._type.itemsize
        self._rest = bytes(data[whole:])
        if not whole:
            return
        ids = np.frombuffer(data[:whole], dtype=self._type)
        self.largest = max(self.largest, int(ids.max()))
        self._count(ids)
        if self._image_id is not None and self._num_edges <= self._max_edges:
            self._note(ids)
        self._seen += len(ids)

    def _count(self, ids: npt.NDArray[np.unsignedinteger]) -> None:
        if not len(self._special) or self.largest < self._special[0]:
            return
        high = ids[ids >= self._special[0]]
        indexes = np.minimum(np.searchsorted(self._special, high), len(self._special) - 1)
        known = indexes[self._special[indexes] == high]
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
        """Whether image tokens were searched."""
        return self._image_id is not None

    @property
    def image_edges(self) -> npt.NDArray[np.int64]:
        """Start and end of runs of image tokens, alternating, in the whole file.

        Positions beyond those of `max_images` images are dropped.
        """
        last = [self._seen] if self._in_image else []
        return np.concatenate([np.zeros(0, np.int64), *self._edges, last]).astype(np.int64)


class MaskScan:
    """Statistics of a mask: the maximum, and the number of tokens that are trained on."""

    def __init__(self) -> None:
        self.largest = -1
        """-1 for an empty file."""
        self.ones = 0

    def add(self, block: memoryview) -> None:
        """Scan bytes of the mask."""
        if len(block):
            flags = np.frombuffer(block, dtype=np.uint8)
            self.largest = max(self.largest, int(flags.max()))
            self.ones += int(np.count_nonzero(flags))


def image_problems(
    images: DocumentImages,
    positions: npt.NDArray[np.int64],
    edges: npt.NDArray[np.int64],
    *,
    name: str,
) -> Iterator[str]:
    """Yield the contradictions between image tokens and images.

    Args:
        images: the images of a shard.
        positions: the start of each of its documents, and the end of the last.
        edges: start and end of runs of image tokens in it, alternating.
        name: the name of the shard.
    """
    expected = _edges(images, positions)
    if np.array_equal(expected, edges):
        return
    common = min(len(expected), len(edges))
    other = np.flatnonzero(expected[:common] != edges[:common])
    index = int(other[0]) if len(other) else common
    token = min(int(values[index]) for values in (expected, edges) if index < len(values))
    document = int(np.searchsorted(positions, token, side="right")) - 1
    yield (
        f"{name}.bin: image tokens do not agree with {name}.images, first at token "
        f"{token - int(positions[document])} of document {document}"
    )


def _edges(images: DocumentImages, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return start and end of runs of adjacent images in the shard, alternating."""
    placed = images.part(0, len(images))
    first = positions[placed[:, 0]]
    edges = np.column_stack([first + placed[:, 1], first + placed[:, 2]]).ravel()
    inner = np.zeros(len(edges), dtype=bool)
    touches = np.flatnonzero(edges[1:-1:2] == edges[2::2])
    inner[2 * touches + 1] = inner[2 * touches + 2] = True
    return edges[~inner]


def check_files(
    folder: Folder,
    record: ShardRecord,
    *,
    item_bytes: int,
    num_ids: int,
    special_tokens: Mapping[str, int] | None = None,
    image_token: str | None = None,
) -> Iterator[str]:
    """Compare the files of a consistent record with the values of the record.

    Args:
        folder: the output folder.
        record: the record.
        item_bytes: the bytes of a token id.
        num_ids: the number of ids, which every id must be below.
        special_tokens: the special tokens of the tokenizer with their ids, which are counted;
            None: they are not counted.
        image_token: the one of them that is used only for images.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    files = {file.name: file for file in record.files}
    check = _Check(
        folder=folder,
        files=files,
        item_bytes=item_bytes,
        num_ids=num_ids,
        special_tokens=special_tokens or {},
        image_token=image_token,
        seen=Seen(special_tokens=None if special_tokens is None else {}),
    )
    for shard in record.shards:
        yield from check.shard(shard)
    for name, file in files.items():
        if name.endswith(".jsonl"):
            yield from _check_quarantine(folder, file, record)
    if check.is_sound:
        yield from seen_problems(record, check.seen)


@dataclass(kw_only=True, slots=True)
class _Check:
    """The files of one record, shard by shard, with sums over all of its shards."""

    folder: Folder
    files: Mapping[str, StoredFile]
    item_bytes: int
    num_ids: int
    special_tokens: Mapping[str, int]
    image_token: str | None
    seen: Seen
    is_sound: bool = True
    """Whether all files were read without problems, so that sums can be compared."""

    def shard(self, shard: Shard) -> Iterator[str]:
        """Yield the problems of the files of a shard."""
        for problem in self._problems(shard):
            self.is_sound = False
            yield problem

    def _problems(self, shard: Shard) -> Iterator[str]:
        positions = yield from self._index(shard)
        images = yield from self._images(shard, positions)
        scan = yield from self._ids(shard, images)
        yield from self._mask(shard)
        if images is not None and positions is not None and scan is not None and scan.saw_images:
            yield from image_problems(images, positions, scan.image_edges, name=shard.name)
        file = self.files.get(f"{shard.name}.ids")
        if file is not None:
            yield from _check_document_ids(self.folder, file, shard)

    def _index(self, shard: Shard) -> Generator[str, None, npt.NDArray[np.int64] | None]:
        """Return the positions of the documents of a shard, or None after yielding problems."""
        name = f"{shard.name}.idx"
        data = yield from checked_bytes(self.folder, self.files[name])
        if data is None:
            return None
        try:
            index = DocumentIndex(data, name=name)
            index.check_sequences()
        except CorruptOutputError as error:
            yield str(error)
            return None
        if index.item_bytes != self.item_bytes or index.tokens != shard.tokens:
            yield (
                f"{name} ends at {index.tokens} tokens of {index.item_bytes} bytes, "
                f"the data at {shard.tokens} of {self.item_bytes}"
            )
            return None
        if len(index) != shard.documents:
            yield f"{name} has {len(index)} documents, the record says {shard.documents}"
            return None
        return index.positions

    def _images(
        self, shard: Shard, positions: npt.NDArray[np.int64] | None
    ) -> Generator[str, None, DocumentImages | None]:
        """Return the images of a shard, or None without such a file or after yielding problems."""
        file = self.files.get(f"{shard.name}.images")
        if file is None:
            return None
        data = yield from checked_bytes(self.folder, file)
        if data is None:
            return None
        try:
            images = DocumentImages(data, name=file.name, documents=shard.documents)
            if positions is not None:
                images.check_within(np.diff(positions))
        except CorruptOutputError as error:
            yield str(error)
            return None
        self.seen.images += images.num_images
        self.seen.image_tokens += images.num_tokens
        return images

    def _ids(
        self, shard: Shard, images: DocumentImages | None
    ) -> Generator[str, None, IdScan | None]:
        """Return the statistics of the ids of a shard, or None after yielding problems."""
        file = self.files[f"{shard.name}.bin"]
        by_id = sorted((number, name) for name, number in self.special_tokens.items())
        scan = IdScan(
            self.item_bytes,
            special_ids=[number for number, _ in by_id],
            image_id=None if images is None else self.special_tokens.get(self.image_token or ""),
            max_images=0 if images is None else images.num_images,
        )
        if not (yield from is_whole(self.folder, file, scan)):
            return None
        if scan.largest >= self.num_ids:
            yield f"{file.name} holds {scan.largest}, values go up to {self.num_ids - 1}"
            return None
        counts = self.seen.special_tokens
        if counts is not None:
            for (_, name), count in zip(by_id, scan.special_counts.tolist(), strict=True):
                counts[name] = counts.get(name, 0) + count
        return scan

    def _mask(self, shard: Shard) -> Iterator[str]:
        file = self.files.get(f"{shard.name}.mask")
        if file is None:
            return
        scan = MaskScan()
        if not (yield from is_whole(self.folder, file, scan)):
            return
        if scan.largest > 1:
            yield f"{file.name} holds {scan.largest}, values go up to 1"
        self.seen.trained = (self.seen.trained or 0) + scan.ones


def _check_document_ids(folder: Folder, file: StoredFile, shard: Shard) -> Iterator[str]:
    data = yield from checked_bytes(folder, file)
    if data is None:
        return
    try:
        DocumentIds(data, name=file.name, documents=shard.documents)
    except CorruptOutputError as error:
        yield str(error)


def _check_quarantine(folder: Folder, file: StoredFile, record: ShardRecord) -> Iterator[str]:
    name, seen = file.name, Lines()
    if not (yield from is_whole(folder, file, seen)):
        return
    if seen.problem or seen.rest:
        yield f"{name}: {seen.problem or 'its last line does not end'}"
        return
    if seen.kinds != record.quarantined:
        yield f"{name} holds {dict(seen.kinds)}, its record says {record.quarantined}"
    recorded = record.bytes.quarantined
    if seen.num_bytes != recorded:
        yield f"{name} stands for {seen.num_bytes} bytes of documents, its record says {recorded}"
