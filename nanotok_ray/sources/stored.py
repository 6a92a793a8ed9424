"""The stored bytes of a file: hashing, decompression, and checks of UTF-8."""

import codecs
import hashlib
import io
import time
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.formats import SourceFile
from nanotok_ray.sources.files import Piece
from nanotok_ray.storage import InputFile, open_input, version_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from typing_extensions import Self


BLOCK_BYTES = 1 << 18
_DRAIN_BYTES = 1 << 20


MAX_DECODED_RATIO = 10_000
MIN_LIMITED_BYTES = 1 << 30
"""Data that decodes to more bytes than these, and to more than `MAX_DECODED_RATIO` times its stored
bytes, is damaged or made to be slow. Text of a language decodes to 10 times its stored bytes, and
copies of one line to 5,000 times.
"""


def expansion_problem(decoded: int, stored: int) -> str | None:
    """Return the reason why no more of some stored bytes is decoded, or None.

    >>> expansion_problem(5 << 30, 16_406)
    '16,406 stored bytes decode to more than 10,000 times as many'
    >>> expansion_problem(5 << 20, 16)
    """
    if decoded <= max(MIN_LIMITED_BYTES, MAX_DECODED_RATIO * stored):
        return None
    return f"{stored:,} stored bytes decode to more than {MAX_DECODED_RATIO:,} times as many"


class TimeIsUpError(Exception):
    """The time for reading is over."""


class ReadAccount:
    """The number and the hash of the bytes that were read, and the time when reading ends."""

    def __init__(self, *, deadline: float | None = None) -> None:
        self._hash = hashlib.sha256()
        self._deadline = deadline
        self.num_bytes = 0

    def check_time(self) -> None:
        """Check the time; every reader calls this for each block that it reads or decodes.

        Raises:
            TimeIsUpError: The deadline, a time of `time.monotonic`, is over.
        """
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TimeIsUpError

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes that were read."""
        self._hash.update(data)
        self.num_bytes += len(data)

    @property
    def sha256(self) -> str:
        """The sha256 of all bytes so far, in hex."""
        return self._hash.hexdigest()


class StoredFile:
    """A context manager of a file that is read once from its start, and fully accounted for."""

    def __init__(self, piece: Piece, *, account: ReadAccount) -> None:
        self._file = open_planned(piece.file)
        self._account = account
        self.piece = piece
        self.block_start = 0
        """Position of the block that was read last."""
        self.closed = False

    def read(self, size: int) -> bytes:
        """Return the next bytes, or nothing at the end."""
        start = self._account.num_bytes
        data = self._file.read(size)
        if data:
            self.block_start = start
            self._account.update(data)
        return data

    def finish(self) -> None:
        """Read the remaining bytes, so that the account includes the whole file.

        Raises:
            SourceError: The file has changed since the plan was made.
        """
        while data := self._file.read(_DRAIN_BYTES):
            self._account.update(data)
        piece = self.piece
        if self._account.num_bytes != piece.stop:
            raise changed(piece.file, f"{self._account.num_bytes} bytes, {piece.stop} were planned")
        check_unchanged(piece.file, version_of(self._file, again=True))

    def check_time(self) -> None:
        """Check the time of the account."""
        self._account.check_time()

    def close(self) -> None:
        """Do nothing: Arrow calls this on release of the file, which is still read afterwards."""

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.closed = True


class DecodedStream(io.RawIOBase):
    """The decoded bytes of all members or frames of a gzip or zstd file.

    At damage the stream ends after the last byte that can be decoded; `failure` has the reason. It
    also ends where it is much larger than the file, see `expansion_problem`.
    """

    def __init__(self, stored: StoredFile) -> None:
        self._stored = stored
        self._planned = stored.piece.file
        self._stream = _decompress(stored, self._planned.compression)
        self._position = 0
        self.failure: str | None = None

    @property
    def problem(self) -> str | None:
        """The reason for a tail at the end of the stream, with the stored bytes that are lost."""
        if self.failure is None:
            return None
        start, stop = self._stored.block_start, self._stored.piece.stop
        return (
            f"{self._planned.compression} stream is broken ({self.failure}); stored bytes {start} "
            f"to {stop} are lost in part or whole"
        )

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer with decoded bytes; return 0 at the end or at damage."""
        view = memoryview(buffer).cast("B")
        data = b"" if self.failure is not None else self._read(view.nbytes)
        view[: len(data)] = data
        self._position += len(data)
        self._stored.check_time()
        self.failure = self.failure or expansion_problem(self._position, self._stored.piece.stop)
        return len(data)

    def _read(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except (OSError, pa.ArrowInvalid) as error:
            if not is_damage(error):
                raise
            self.failure = str(error)
        return self._salvage(size)

    def _salvage(self, size: int) -> bytes:
        """Decode again up to the current position, then byte by byte up to the damage.

        A failing read loses the data that it had decoded, whereas single bytes lose nothing. This
        costs a second pass over a broken file.
        """
        with open_input(self._planned.url) as file:
            stream = _decompress(file, self._planned.compression)
            left = self._position
            while left:
                left -= len(stream.read(min(left, BLOCK_BYTES)))
                self._stored.check_time()
            data = bytearray()
            try:
                while len(data) < size and (byte := stream.read(1)):
                    data += byte
            except (OSError, pa.ArrowInvalid) as error:
                if not is_damage(error):
                    raise
        return bytes(data)


def _decompress(file: BinaryIO | StoredFile, compression: str | None) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.PythonFile(file, mode="r"), compression)


def is_damage(error: Exception) -> bool:
    """Return whether an error is caused by the content rather than by storage.

    Arrow raises the same classes for both. Errors of the operating system have an errno; errors in
    the content do not.
    """
    if isinstance(error, TransientIOError | MemoryError):
        return False
    return not (isinstance(error, OSError) and error.errno is not None)


def open_planned(file: SourceFile, *, at: int = 0) -> BinaryIO:
    """Open a file of the plan, which is first read near a position.

    Raises:
        SourceError: The file has changed since the plan was made.
    """
    stored = open_input(file.url, at=at)
    try:
        check_unchanged(file, version_of(stored))
    except BaseException:
        stored.close()
        raise
    return stored


def check_unchanged(
    file: SourceFile, version: InputFile, *, footer_sha256: str | None = None
) -> None:
    """Compare the attributes that identify a file's content with those of the plan, if both exist.

    Raises:
        SourceError: The file has changed since the plan was made.
    """
    for what, now, planned in (
        ("size", version.size, file.size),
        ("etag", version.etag, file.etag),
        ("footer", footer_sha256, file.footer_sha256),
    ):
        if now is not None and planned is not None and now != planned:
            raise changed(file, f"the {what} {now} instead of {planned}")
    has_etags = file.etag is not None and version.etag is not None
    if not has_etags and not _is_same_time(version.mtime_ns, file.mtime_ns):
        what = f"the modification time {version.mtime_ns}, {file.mtime_ns} was planned"
        raise changed(file, what)


_SECOND = 1_000_000_000


def _is_same_time(now: int | None, planned: int | None) -> bool:
    """Compare two times in nanoseconds, in whole seconds if one of them has no fraction.

    A store can list times in milliseconds, and give them in whole seconds for a single file.

    >>> _is_same_time(5_123_000_000, 5_000_000_000), _is_same_time(5_123_000_000, 5_124_000_000)
    (True, False)
    """
    if now is None or planned is None:
        return True
    if now % _SECOND and planned % _SECOND:
        return now == planned
    return now // _SECOND == planned // _SECOND


def changed(file: SourceFile, what: str) -> SourceError:
    """Return the error for a file that has changed since the plan was made."""
    return SourceError(
        f"{file.url} changed since the plan was made: it has {what}; run again to make a new plan"
    )


FIRST_BYTES = 4

_GZIP = b"\x1f\x8b"
_ZSTD = (0xFD2FB528, 0xFFFFFFFF)
_ZSTD_SKIPPABLE = (0x184D2A50, 0xFFFFFFF0)


def is_compressed(first: bytes, compression: str) -> bool:
    r"""Return whether the first bytes of a file can be those of gzip or zstd.

    >>> is_compressed(b"\x1f\x8b\x08\x00", "gzip"), is_compressed(b'{"te', "zstd")
    (True, False)
    """
    if compression == "gzip":
        return first.startswith(_GZIP)
    start = int.from_bytes(first, "little")
    return any(start & mask == magic for magic, mask in (_ZSTD, _ZSTD_SKIPPABLE))


_BLOCK_BYTES = 1 << 18


def invalid_at(data: bytes | bytearray | memoryview) -> int | None:
    r"""Return the position of the first byte that is not UTF-8, or None.

    A Python string needs up to four bytes per character, so data is decoded in blocks.

    >>> invalid_at(b"ab\xff"), invalid_at(b"ab")
    (2, None)
    """
    with memoryview(data) as view:
        position = 0
        while position < len(view):
            block = view[position : position + _BLOCK_BYTES]
            is_last = position + len(block) == len(view)
            try:
                position += codecs.utf_8_decode(block, "strict", is_last)[1]
            except UnicodeDecodeError as error:
                return position + error.start
    return None
