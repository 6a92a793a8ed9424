"""A parquet file as Arrow reads it, with its column chunks hashed on the way.

Takes a path or URL and ranges of stored bytes; gives a file object. Does not know the format beyond
where its footer is.
"""

import hashlib
import io
from typing import TYPE_CHECKING

from nanotok_ray.sources.parquet_pages import PageHeaders
from nanotok_ray.sources.stored import ReadAccount
from nanotok_ray.storage import InputFile, PositionedFile, open_input, version_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAX_WINDOW_BYTES = 64 << 20
_BLOCK_BYTES = 2 << 20  # more than what an opened file buffers, so that nothing is copied there
_END_BYTES = 8  # length of the footer and the magic


class ChunkFile(PositionedFile):
    """A parquet file of which one column chunk at a time is read ahead, and hashed on the way.

    The hash is of stored bytes, which Arrow does not show. Keeping them until Arrow asks for them
    saves reading a remote file twice; a chunk above 64 MiB is read twice instead of kept.
    """

    def __init__(self, url: str) -> None:
        self._file = open_input(url)
        super().__init__(size=self._file.seek(0, io.SEEK_END))
        self._buffer = bytearray()
        self._window = memoryview(self._buffer)
        self._window_start = 0

    def load(self, start: int, length: int, *, account: ReadAccount) -> PageHeaders:
        """Read and account for the bytes of a chunk, and keep them if they are not too many.

        Gives what the headers of its pages say.
        """
        headers = PageHeaders()
        is_kept = length <= _MAX_WINDOW_BYTES
        room = self._room(length if is_kept else _BLOCK_BYTES)
        filled = 0
        self._file.seek(start)
        while filled < length:
            place = filled if is_kept else 0
            block = room[place : place + min(_BLOCK_BYTES, length - filled)]
            size = self._file.readinto(block)  # type: ignore[attr-defined]
            if not size:
                break
            account.update(block[:size])
            headers.update(block[:size])
            filled += size
        self._window, self._window_start = room[: filled if is_kept else 0], start
        return headers

    def _room(self, size: int) -> memoryview:
        """Give memory for so many bytes, the same again: new memory costs as much as reading."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        return memoryview(self._buffer)

    def version(self, *, again: bool = False) -> InputFile:
        """Tell which content it has: when it was opened, or again, by now."""
        return version_of(self._file, again=again)

    def footer_sha256(self) -> str:
        """Give the hex sha256 of the footer, its length and the magic included."""
        self._file.seek(self._size - _END_BYTES)
        length = int.from_bytes(self._file.read(4), "little")
        self._file.seek(self._size - _END_BYTES - length)
        return hashlib.sha256(self._file.read()).hexdigest()

    def read(self, size: int = -1, /) -> bytes:
        """Give the next bytes, from what is kept where it has them all."""
        size = max(0, self._size - self._position) if size < 0 else size
        start = self._position - self._window_start
        if start >= 0 and start + size <= len(self._window):
            data = bytes(self._window[start : start + size])
        else:
            self._file.seek(self._position)
            data = self._file.read(size)
        self._position += len(data)
        return data

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer with the next bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(view.nbytes)
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        super().close()
