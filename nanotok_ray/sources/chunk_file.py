"""A parquet file as Arrow reads it, with its column chunks hashed on the way.

Takes a path or URL and ranges of stored bytes; gives a file object. Does not know the format beyond
where its footer is.
"""

import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nanotok_ray.sources.parquet_pages import PageHeaders
from nanotok_ray.sources.stored import ReadAccount
from nanotok_ray.storage import InputFile, PositionedFile, open_input, version_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAX_WINDOW_BYTES = 64 << 20
_BLOCK_BYTES = 2 << 20  # more than what an opened file buffers, so that nothing is copied there
_END_BYTES = 8  # length of the footer and the magic


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """The stored bytes of one chunk."""

    start: int
    data: memoryview
    buffer: bytearray
    """The memory behind them, perhaps larger."""


class ChunkFile(PositionedFile):
    """A parquet file of which column chunks are read ahead, and hashed on the way.

    The hash is of stored bytes, which Arrow does not show. Keeping them until Arrow asks for them
    saves reading a remote file twice; what does not fit 64 MiB is read twice instead of kept.
    """

    def __init__(self, url: str, *, block_bytes: int | None = None) -> None:
        self._file = open_input(url, block_bytes=block_bytes)
        super().__init__(size=self._file.seek(0, io.SEEK_END))
        self._spare: list[bytearray] = []
        self._kept: list[_Kept] = []

    def load(self, start: int, length: int, *, account: ReadAccount) -> PageHeaders:
        """Read and account for the bytes of a chunk, and keep them if they are not too many.

        Others that were kept make room for it, the oldest first. Gives what the headers of its
        pages say.
        """
        headers = PageHeaders()
        is_kept = length <= _MAX_WINDOW_BYTES
        while is_kept and sum(len(kept.data) for kept in self._kept) + length > _MAX_WINDOW_BYTES:
            self._spare.append(self._kept.pop(0).buffer)
        buffer = self._room(length if is_kept else _BLOCK_BYTES)
        room = memoryview(buffer)
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
        kept = room[: filled if is_kept else 0]
        self._kept.append(_Kept(start=start, data=kept, buffer=buffer))
        return headers

    def release(self) -> None:
        """Keep nothing any more; the memory is used again."""
        self._spare += [kept.buffer for kept in self._kept]
        self._kept = []
        if sum(map(len, self._spare)) > 2 * _MAX_WINDOW_BYTES:
            self._spare = []

    def _room(self, size: int) -> bytearray:
        """Give memory for so many bytes, the same again: new memory costs as much as reading."""
        fits = [place for place, buffer in enumerate(self._spare) if len(buffer) >= size]
        if fits:
            return self._spare.pop(min(fits, key=lambda place: len(self._spare[place])))
        if self._spare:
            self._spare.pop()
        return bytearray(size)

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
        data = self._from_kept(size)
        if data is None:
            self._file.seek(self._position)
            data = self._file.read(size)
        self._position += len(data)
        return data

    def _from_kept(self, size: int) -> bytes | None:
        for kept in self._kept:
            start = self._position - kept.start
            if start >= 0 and start + size <= len(kept.data):
                return bytes(kept.data[start : start + size])
        return None

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
