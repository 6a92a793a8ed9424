r"""A stream of bytes to blocks of whole lines, in bounded memory whatever the length of a line.

Takes a function that gives the next bytes; a line ends at \n. Does not know files or documents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

BLOCK_BYTES = 1 << 18
_LINE_BREAK = b"\r\n"
_AROUND_BYTES = 5
"""What a line may have besides its document: a byte order mark and a line break."""


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line above the limit, of which nothing was kept."""

    num_bytes: int
    """Without the line break."""


class LineBlocks:
    r"""Iterate once: (position of the first line, whole lines) of a stream.

    A line that no block held to its end comes alone, as a bytearray; one that is more than
    `max_line_bytes` is a `LongLine`. Only the last line may lack its line break, and if the stream
    is broken it is left out.

    >>> parts = iter([b"a\nb", b"b\nlong", b" line\nc", b""])
    >>> list(LineBlocks(lambda size: next(parts), start=0, max_line_bytes=2))
    [(0, b'a\n'), (2, bytearray(b'bb\n')), (5, LongLine(num_bytes=9)), (15, bytearray(b'c'))]
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        *,
        start: int,
        max_line_bytes: int,
        is_broken: Callable[[], bool] = lambda: False,
    ) -> None:
        self._read = read
        self._most = max_line_bytes + _AROUND_BYTES
        self._is_broken = is_broken
        self.position = start
        """Where the next line begins; at the end of a broken stream, the line that was lost."""
        self._open: bytearray = bytearray()
        self._dropped = 0  # bytes of the open line, if it is above the limit
        self._last = b""

    def __iter__(self) -> Iterator[tuple[int, bytes | bytearray | LongLine]]:
        while data := self._read(BLOCK_BYTES):
            if self._open or self._dropped:
                end = data.find(b"\n") + 1
                self._extend(data[:end] if end else data)
                if not end:
                    continue
                yield self._close()
                data = data[end:]
            end = data.rfind(b"\n") + 1
            if end:
                yield self._next(end), data[:end]
            self._extend(data[end:])
        if (self._open or self._dropped) and not self._is_broken():
            yield self._close()

    def _extend(self, data: bytes) -> None:
        if self._dropped:
            self._dropped += len(data)
        else:
            self._open += data
        if len(self._open) > self._most:
            self._dropped, self._open = len(self._open), bytearray()
        self._last = (self._last + data[-2:])[-2:]

    def _close(self) -> tuple[int, bytearray | LongLine]:
        """Give the open line, and keep no hold of it."""
        line, self._open = self._open, bytearray()
        size, self._dropped = self._dropped, 0
        last, self._last = self._last, b""
        if not size:
            return self._next(len(line)), line
        broken_off = len(last) - len(last.rstrip(_LINE_BREAK)) if last.endswith(b"\n") else 0
        return self._next(size), LongLine(size - broken_off)

    def _next(self, size: int) -> int:
        self.position += size
        return self.position - size
