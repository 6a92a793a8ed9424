"""The check of the files of a slice's shards, which are read once, and of sums in the record."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    DocumentImages,
    DocumentIndex,
    ShardRecord,
    StoredFile,
    StoredShard,
    shards_of,
)
from nanotok_ray.shards.records import file_problem
from nanotok_ray.shards.settings import Vocabulary
from nanotok_ray.sources import entry_of
from nanotok_ray.storage import Folder

MAX_LINE_BYTES = 16 << 20
"""Limit of a line of a quarantine file, which usually has a few hundred bytes."""

_Bytes = npt.NDArray[np.uint8]
_Use = Callable[[memoryview], object]
T = TypeVar("T")


def check_files(folder: Folder, record: ShardRecord, vocabulary: Vocabulary) -> list[str]:
    """Compare the files of a consistent record with the values of the record.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    check = _FilesCheck(
        folder=folder, files={file.name: file for file in record.files}, vocabulary=vocabulary
    )
    for shard in shards_of(record, item_bytes=vocabulary.item_bytes, sha256=""):
        check.shard(shard)
    can_compare_sums = not check.problems
    for name in check.files:
        if name.endswith(".jsonl"):
            check.quarantine(name, record)
    if can_compare_sums:
        check.problems += _seen_problems(record, check.seen)
    return check.problems


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
        end = len(data) - len(data) % self._type.itemsize
        self._rest = bytes(data[end:])
        if not end:
            return
        ids = np.frombuffer(data[:end], dtype=self._type)
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


class QuarantineScan:
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


@dataclass(slots=True)
class _Seen:
    """Counts from the files of all shards of a record."""

    special_tokens: Counter[str] = field(default_factory=Counter)
    trained: int | None = None
    """Tokens with mask 1; None: no shard has a mask."""
    images: int = 0
    image_tokens: int = 0


@dataclass(kw_only=True, slots=True)
class _FilesCheck:
    """The files of one record, shard by shard, with sums over all of its shards."""

    folder: Folder
    files: Mapping[str, StoredFile]
    vocabulary: Vocabulary
    seen: _Seen = field(default_factory=_Seen)
    problems: list[str] = field(default_factory=list)

    def shard(self, shard: StoredShard) -> None:
        """Check the files of a shard."""
        name = shard.name
        index = self._table(f"{name}.idx", lambda data, path: _index(shard, data, path))
        images = self._table(
            f"{name}.images", lambda data, path: shard.images(data, name=path, index=index)
        )
        if images is not None:
            self.seen.images += images.num_images
            self.seen.image_tokens += images.num_tokens
        scan = self._ids(f"{name}.bin", images)
        self._mask(f"{name}.mask")
        if index is not None and images is not None and scan is not None and scan.saw_images:
            self.problems += image_problems(images, index.positions, scan.image_edges, name=name)
        self._table(f"{name}.ids", lambda data, path: shard.document_ids(data, name=path))

    def quarantine(self, name: str, record: ShardRecord) -> None:
        """Compare a quarantine file with the counts of the record."""
        scan = QuarantineScan()
        if not self._read(name, scan.add):
            return
        if scan.problem or scan.rest:
            self.problems.append(f"{name}: {scan.problem or 'its last line does not end'}")
            return
        if scan.kinds != record.quarantined:
            self.problems.append(
                f"{name} holds {dict(scan.kinds)}, its record says {record.quarantined}"
            )
        recorded = record.bytes.quarantined
        if scan.num_bytes != recorded:
            self.problems.append(
                f"{name} stands for {scan.num_bytes} bytes of documents, its record says {recorded}"
            )

    def _table(self, name: str, parse: Callable[[_Bytes, str], T]) -> T | None:
        """Return a parsed file, or None if the shard has no such file or it has a problem."""
        data = bytearray()
        if not self._read(name, data.extend):
            return None
        try:
            return parse(np.frombuffer(data, dtype=np.uint8), name)
        except CorruptOutputError as error:
            self.problems.append(str(error))
            return None

    def _ids(self, name: str, images: DocumentImages | None) -> IdScan | None:
        """Return the statistics of the ids of a shard, or None if they have a problem."""
        vocabulary = self.vocabulary
        by_id = sorted((number, token) for token, number in vocabulary.special_tokens.items())
        scan = IdScan(
            vocabulary.item_bytes,
            special_ids=[number for number, _ in by_id],
            image_id=None
            if images is None
            else vocabulary.special_tokens.get(vocabulary.image_token or ""),
            max_images=0 if images is None else images.num_images,
        )
        if not self._read(name, scan.add) or self._exceeds(name, scan.largest, vocabulary.num_ids):
            return None
        for (_, token), count in zip(by_id, scan.special_counts.tolist(), strict=True):
            self.seen.special_tokens[token] += count
        return scan

    def _mask(self, name: str) -> None:
        scan = MaskScan()
        if self._read(name, scan.add):
            self._exceeds(name, scan.largest, 2)
            self.seen.trained = (self.seen.trained or 0) + scan.ones

    def _exceeds(self, name: str, highest: int, limit: int) -> bool:
        if highest >= limit:
            self.problems.append(f"{name} holds {highest}, values go up to {limit - 1}")
        return highest >= limit

    def _read(self, name: str, use: _Use) -> bool:
        """Read a file; return whether the record names it and it has the bytes of its entry."""
        file = self.files.get(name)
        problem = None if file is None else file_problem(self.folder, file, use=use)
        if problem is not None:
            self.problems.append(problem)
        return file is not None and problem is None


def _index(shard: StoredShard, data: _Bytes, name: str) -> DocumentIndex:
    index = shard.index(data, name=name)
    index.check_sequences()
    return index


def _seen_problems(record: ShardRecord, seen: _Seen) -> Iterator[str]:
    """Compare the counts from all files of a record with its sums."""
    prefix = f"record {record.key[:16]}"
    if seen.trained is not None and seen.trained != record.trainable_tokens:
        yield (
            f"{prefix}: its masks train on {seen.trained} tokens, it says {record.trainable_tokens}"
        )
    if seen.images != record.images:
        yield f"{prefix}: its shards have {seen.images} images, it says {record.images}"
    of_images = record.roles.get("image", 0)
    if seen.image_tokens != of_images:
        yield f"{prefix}: its images have {seen.image_tokens} tokens, it says {of_images}"
    said = record.special_tokens
    for name in sorted(said.keys() | seen.special_tokens.keys()):
        count = seen.special_tokens[name]
        if said.get(name, 0) != count:
            yield f"{prefix}: its shards hold {name!r} {count} times, it says {said.get(name, 0)}"
