"""The protocol of a shard writer for any layout, and the writer of native files.

A sink receives whole documents in order. It publishes its files when it is closed.
"""

from collections.abc import Collection, Iterable
from contextlib import ExitStack
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents import Documents
from nanotok_ray.formats import Images, StoredFile, ids_parts, images_parts, index_parts
from nanotok_ray.storage import Folder, WholeFile

Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


class Sink(Protocol):
    """One shard in one layout."""

    def write(
        self,
        ids: Ids,
        lengths: npt.NDArray[np.int64],
        mask: npt.NDArray[np.uint8] | None,
        images: Images | None,
        document_ids: Documents | None,
    ) -> None:
        """Append documents: their token ids back to back, and the number of ids of each.

        Conversations and vision documents have one mask byte per token, vision documents have the
        positions of their images (document among these, start, end), and documents of a source
        with an `id_column` have ids.
        """

    def close(self) -> list[StoredFile]:
        """Publish the files, and return them."""

    def discard(self) -> None:
        """Remove everything that was written."""


class NativeSink:
    """Writes NAME.bin and NAME.idx, and NAME.mask, NAME.images and NAME.ids if needed."""

    def __init__(
        self,
        folder: Folder,
        name: str,
        *,
        item_bytes: int,
        suffixes: Collection[str],
    ) -> None:
        """Open the files of ids and masks; the others are written when the sink is closed."""
        self._folder, self._name, self._item_bytes = folder, name, item_bytes
        self._stack = ExitStack()
        self._files = {".bin": self._open(".bin")}
        if ".mask" in suffixes:
            self._files[".mask"] = self._open(".mask")
        self._lengths: list[npt.NDArray[np.int32]] = []
        self._images: list[tuple[int, npt.NDArray[np.int32]]] | None = (
            [] if ".images" in suffixes else None
        )
        self._document_ids: list[Documents] | None = [] if ".ids" in suffixes else None

    def _open(self, suffix: str) -> WholeFile:
        return self._stack.enter_context(self._folder.create_once(self._name + suffix))

    def write(
        self,
        ids: Ids,
        lengths: npt.NDArray[np.int64],
        mask: npt.NDArray[np.uint8] | None,
        images: Images | None,
        document_ids: Documents | None,
    ) -> None:
        """Append documents."""
        self._files[".bin"].write(ids.astype(f"<u{self._item_bytes}", copy=False).data)
        if mask is not None:
            self._files[".mask"].write(mask.data)
        if self._images is not None and images is not None:
            self._images.append((len(lengths), images.astype(np.int32)))
        if self._document_ids is not None and document_ids is not None:
            self._document_ids.append(document_ids)
        self._lengths.append(lengths.astype(np.int32))

    def close(self) -> list[StoredFile]:
        """Publish the files."""
        self._write_side_file(".idx", index_parts(self._lengths, item_bytes=self._item_bytes))
        if self._images is not None:
            self._write_side_file(".images", images_parts(self._images))
        if self._document_ids is not None:
            parts = [(documents.data, documents.offsets) for documents in self._document_ids]
            self._write_side_file(".ids", ids_parts(parts))
        self._stack.close()
        return [
            StoredFile(name=self._name + suffix, size=file.size, sha256=file.sha256)
            for suffix, file in sorted(self._files.items())
        ]

    def _write_side_file(self, suffix: str, parts: Iterable[bytes]) -> None:
        self._files[suffix] = self._open(suffix)
        for part in parts:
            self._files[suffix].write(part)

    def discard(self) -> None:
        """Remove the temporary files."""
        self._stack.__exit__(InterruptedError, InterruptedError("discarded"), None)
