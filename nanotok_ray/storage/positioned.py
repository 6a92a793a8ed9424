"""The half of a read-only file object that is only arithmetic: where the next read begins."""

import io


class PositionedFile(io.RawIOBase):
    """A file of known size with a position of its own; a subclass reads."""

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Give the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position of the next read; costs nothing."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position
