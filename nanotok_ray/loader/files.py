"""Reading the files of an output folder, whole or in parts.

This module reads a local folder, and requires only numpy. It does not interpret the contents of
files.
"""

import io
import os
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import SHARDS_INDEX_NAME, InnerFiles, StoredShard, check_size

Bytes = npt.NDArray[np.uint8]


class Stored(Protocol):
    """A file of known size, of which parts can be read."""

    @property
    def mapped(self) -> Bytes | None:
        """The whole file as a view that uses no memory, or None if the file cannot be mapped."""

    def part(self, start: int, stop: int) -> Bytes:
        """Return the bytes of the file from `start` up to `stop`.

        Raises:
            CorruptOutputError: the file is not the one that was opened.
        """


class Files(Protocol):
    """The files of one output folder."""

    @property
    def url(self) -> str:
        """Path or URL of the folder, for errors."""

    def join(self, name: str) -> str:
        """Return the path or URL of a file."""

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return all bytes of a file.

        Raises:
            FileNotFoundError: the file does not exist.
            CorruptOutputError: the file has more than `limit` bytes, or is outside of the folder.
        """

    def open(self, shard: StoredShard, suffix: str) -> Stored:
        """Open a file of a shard, which has the size in shards.idx.

        Raises:
            CorruptOutputError: the file is missing or has another size. At a URL, `Stored.part`
                raises it instead.
        """


class Mapped:
    """A local file that is mapped into memory."""

    def __init__(self, data: Bytes) -> None:
        self._data = data

    @property
    def mapped(self) -> Bytes:
        """The whole file as a view."""
        return self._data

    def part(self, start: int, stop: int) -> Bytes:
        """Return a view of the bytes from `start` up to `stop`."""
        return self._data[start:stop]


class LocalFiles:
    """The files of a folder on a local file system."""

    def __init__(self, root: str) -> None:
        self._files = InnerFiles(Path(root))

    @property
    def url(self) -> str:
        """Path of the folder."""
        return str(self._files.root)

    def join(self, name: str) -> str:
        """Return the path of a file."""
        return f"{self.url}/{name}"

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return all bytes of a file; see `Files`."""
        with os.fdopen(self._files.open(name), "rb", buffering=0) as file:
            check_size(os.fstat(file.fileno()).st_size, limit=limit, name=self.join(name))
            return file.readall()

    def open(self, shard: StoredShard, suffix: str) -> Mapped:
        """Map a file; see `Files`."""
        name, num_bytes = shard.name + suffix, shard.sizes[suffix]
        try:
            descriptor = self._files.open(name)
        except (FileNotFoundError, IsADirectoryError) as error:
            problem = "a folder" if isinstance(error, IsADirectoryError) else "missing"
            raise CorruptOutputError(
                f"{self.join(name)} is {problem}; `nanotok verify {self.url}` says more"
            ) from error
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            if size != num_bytes:
                raise CorruptOutputError(
                    f"{self.join(name)} has {size} bytes, {SHARDS_INDEX_NAME} says {num_bytes}; "
                    f"`nanotok verify {self.url}` says more"
                )
            return Mapped(map_file(file, num_bytes))


def map_file(file: io.RawIOBase, num_bytes: int) -> Bytes:
    """Map an open file of a known size."""
    if num_bytes == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype=np.uint8)
    return np.memmap(file, dtype=np.uint8, mode="r", shape=(num_bytes,))
