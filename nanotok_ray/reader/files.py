"""The files of an output folder, as a reader wants them: whole, or mapped and cut.

Takes names inside the folder and the sizes that shards.idx says; gives bytes. A local folder is
read here, with numpy alone. Does not know what files hold.
"""

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.manifest import SHARDS_INDEX_NAME
from nanotok_ray.output_shapes import check_size
from nanotok_ray.shard_paths import path_inside

Bytes = npt.NDArray[np.uint8]


class Stored(Protocol):
    """One file of known size, of which parts are read."""

    @property
    def whole(self) -> Bytes | None:
        """All of it as a view that costs no memory, None where that cannot be."""

    def part(self, start: int, stop: int) -> Bytes:
        """Give its bytes from `start` up to `stop`.

        Raises:
            CorruptOutputError: the file is not the one that was opened.
        """


class Files(Protocol):
    """The files of one output folder."""

    @property
    def url(self) -> str:
        """Path or URL of the folder, for errors."""

    def read(self, name: str, *, most: int) -> bytes:
        """Give all bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            CorruptOutputError: it has more than `most` bytes, or lies outside of the folder.
        """

    def open(self, name: str, num_bytes: int, *, content: str, at_once: bool = False) -> Stored:
        """Open a file.

        Args:
            name: its name in the folder.
            num_bytes: the size that it must have.
            content: what no file of other bytes has, in any output: a name for copies of it.
            at_once: all of it will be wanted.

        Raises:
            CorruptOutputError: it is missing or has another size; of a URL, by `Stored.part`.
        """


class Mapped:
    """A local file that is mapped into memory."""

    def __init__(self, data: Bytes) -> None:
        self._data = data

    @property
    def whole(self) -> Bytes:
        """All of it."""
        return self._data

    def part(self, start: int, stop: int) -> Bytes:
        """Give a view."""
        return self._data[start:stop]


class LocalFiles:
    """The files of a folder on a local file system."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    @property
    def url(self) -> str:
        """Path of the folder."""
        return str(self._root)

    def read(self, name: str, *, most: int) -> bytes:
        """Give all bytes of a file; see `Files`."""
        path = path_inside(self._root, name)
        check_size(path.stat().st_size, most=most, name=str(path))
        return path.read_bytes()

    def open(self, name: str, num_bytes: int, *, content: str, at_once: bool = False) -> Mapped:  # noqa: ARG002 - nothing is copied here
        """Map a file; see `Files`."""
        path = path_inside(self._root, name)
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            raise CorruptOutputError(
                f"{path} is missing; `nanotok verify {self._root}` says more"
            ) from error
        if not path.is_file():
            raise CorruptOutputError(f"{path} is not a file")
        if size != num_bytes:
            raise CorruptOutputError(
                f"{path} has {size} bytes, {SHARDS_INDEX_NAME} says {num_bytes}"
            )
        if size == 0:
            return Mapped(np.zeros(0, dtype=np.uint8))
        return Mapped(np.memmap(path, dtype=np.uint8, mode="r"))
