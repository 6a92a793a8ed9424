"""Where the documents of a shard go: the native files, and the shape of any other layout.

A sink gets whole documents in order and publishes its files when it is closed, or nothing.
"""

from contextlib import ExitStack
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_index import pack_index
from nanotok_ray.storage import Folder, WholeFile

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


class Sink(Protocol):
    """One shard in one layout."""

    def write(
        self, ids: Ids, lengths: npt.NDArray[np.int64], mask: npt.NDArray[np.uint8] | None
    ) -> None:
        """Append documents: their ids back to back, their lengths, one mask byte per id or None."""

    def close(self) -> list[dict[str, Any]]:
        """Publish the files and give name, size and sha256 of each."""

    def discard(self) -> None:
        """Leave nothing behind."""


class NativeSink:
    """NAME.bin, NAME.idx and, for chats, NAME.mask."""

    def __init__(self, folder: Folder, name: str, *, item_bytes: int, with_mask: bool) -> None:
        self._folder, self._name, self._item_bytes = folder, name, item_bytes
        self._stack = ExitStack()
        self._bin = self._open(".bin")
        self._mask = self._open(".mask") if with_mask else None
        self._lengths: list[npt.NDArray[np.int64]] = []

    def _open(self, suffix: str) -> WholeFile:
        return self._stack.enter_context(self._folder.create_once(self._name + suffix))

    def write(
        self, ids: Ids, lengths: npt.NDArray[np.int64], mask: npt.NDArray[np.uint8] | None
    ) -> None:
        """Append documents."""
        self._bin.write(ids.astype(f"<u{self._item_bytes}", copy=False).data)
        if self._mask is not None and mask is not None:
            self._mask.write(mask.data)
        self._lengths.append(lengths)

    def close(self) -> list[dict[str, Any]]:
        """Publish the files."""
        index = self._open(".idx")
        index.write(pack_index(np.concatenate(self._lengths), item_bytes=self._item_bytes))
        self._stack.close()
        files = {".bin": self._bin, ".idx": index}
        if self._mask is not None:
            files[".mask"] = self._mask
        return [
            {"name": self._name + suffix, "size": file.size, "sha256": file.sha256}
            for suffix, file in files.items()
        ]

    def discard(self) -> None:
        """Drop the temporary files."""
        self._stack.__exit__(InterruptedError, InterruptedError("discarded"), None)
