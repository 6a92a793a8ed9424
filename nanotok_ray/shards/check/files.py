"""The files of a shard, each read once: size, sha256, ids, masks and images."""

import hashlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.document_images import DocumentImages
from nanotok_ray.formats.paths import path_inside
from nanotok_ray.shards.check.record import size_problem
from nanotok_ray.sources.quarantine import entry_of
from nanotok_ray.storage import Folder, open_input

BLOCK_BYTES = 1 << 20
"""Read at a time: stays in a core's cache between hashing and the rest; a multiple of an id."""

MAX_LINE_BYTES = 16 << 20
"""Of a quarantine file; a line has a few hundred."""


class Use(Protocol):
    """What is done with the bytes of a file besides hashing."""

    def add(self, block: memoryview) -> None:
        """Take the next bytes; they change once this returns."""


class AllBytes:
    """All bytes of a file."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, block: memoryview) -> None:
        """Append."""
        self.data += block


class Lines:
    """The number of entries of a quarantine file by the kind of their reason."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.num_bytes = 0
        """Bytes of the documents they stand for."""
        self.rest = b""
        self.problem: str | None = None
        """Of the first line that is no entry."""

    def add(self, block: memoryview) -> None:
        """Count the lines that end here."""
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
            self.problem = self.problem or f"line {number} is no quarantine entry"
            return
        self.kinds[entry.kind] += 1
        self.num_bytes += entry.bytes


def read_once(folder: Folder, name: str, *, limit: int, use: Use) -> tuple[int, str]:
    """Return size and sha256 (hex) of a file; reading stops soon after `limit` bytes.

    Raises:
        FileNotFoundError: there is none.
        CorruptOutputError: the name or a link leads out of the folder.
    """
    if folder.local_path(name) is not None:
        path_inside(Path(folder.url), name)
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(BLOCK_BYTES))
    with open_input(folder.join(name)) as file:
        while size <= limit and (length := file.readinto(buffer)):  # type: ignore[attr-defined]
            block = buffer[:length]
            digest.update(block)
            use.add(block)
            size += length
    return size, digest.hexdigest()


def _check_bytes(folder: Folder, file: Mapping[str, Any], use: Use) -> Iterator[str]:
    """Read a file and compare size and sha256; `use` sees its bytes too."""
    name = file["name"]
    try:
        size, sha256 = read_once(folder, name, limit=file["size"], use=use)
    except FileNotFoundError:
        yield from size_problem(file, None)
        return
    except CorruptOutputError as error:
        yield str(error)
        return
    if size != file["size"]:
        yield from size_problem(file, folder.size(name))
    elif sha256 != file["sha256"]:
        yield f"{name} has another sha256 than its record says: its bytes were changed"


def is_whole(folder: Folder, file: Mapping[str, Any], use: Use) -> Generator[str, None, bool]:
    """Return whether a file has the bytes that its record says; `use` sees them."""
    problems = list(_check_bytes(folder, file, use))
    yield from problems
    return not problems


def checked_bytes(
    folder: Folder, file: Mapping[str, Any]
) -> Generator[str, None, npt.NDArray[np.uint8] | None]:
    """Yield the bytes of a file, None after problems."""
    seen = AllBytes()
    if not (yield from is_whole(folder, file, seen)):
        return None
    return np.frombuffer(seen.data, dtype=np.uint8)


class IdScan:
    """Ids: the largest, how often each special token is there, where runs of image tokens are."""

    def __init__(
        self,
        item_bytes: int,
        *,
        special_ids: Sequence[int] = (),
        image_id: int | None = None,
        max_images: int = 0,
    ) -> None:
        """Take the special tokens' ids in rising order; where images are is noted of so many."""
        self._type = np.dtype(f"<u{item_bytes}")
        self._special = np.array(special_ids, dtype=np.int64)
        self._image_id, self._max_edges = image_id, 2 * max_images + 2
        self._rest = b""
        self._edges: list[npt.NDArray[np.int64]] = []
        self._num_edges = self._seen = 0
        self._in_image = False
        self.largest = -1
        """-1 of an empty file."""
        self.special_counts = np.zeros(len(special_ids), dtype=np.int64)

    def add(self, block: memoryview) -> None:
        """Scan ids; bytes at the end that are no whole id are left to the check of the size."""
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
        """Whether it searched for image tokens."""
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
    """Yield where image tokens and images do not agree, if anywhere.

    Args:
        images: of a shard.
        positions: where each of its documents begins and the last ends.
        edges: where runs of image tokens begin and end in it, in turn.
        name: of the shard.
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
    """Return where runs of images that touch each other begin and end in the shard, in turn."""
    placed = images.part(0, len(images))
    first = positions[placed[:, 0]]
    edges = np.column_stack([first + placed[:, 1], first + placed[:, 2]]).ravel()
    inner = np.zeros(len(edges), dtype=bool)
    touches = np.flatnonzero(edges[1:-1:2] == edges[2::2])
    inner[2 * touches + 1] = inner[2 * touches + 2] = True
    return edges[~inner]
