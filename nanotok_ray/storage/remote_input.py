"""A remote file for reading that continues at the same position after a failure."""

import io
from contextlib import suppress
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, cast

from nanotok_ray.errors import SourceError
from nanotok_ray.storage.connect import VERSION_KEYS, RemoteTree, connect
from nanotok_ray.storage.retries import attempt, has_status
from nanotok_ray.storage.s3_object import ObjectChangedError, S3Object
from nanotok_ray.storage.tree import Entry

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from fsspec import AbstractFileSystem


class SeekableFile(io.RawIOBase):
    """A file of known size with a position; subclasses implement reading."""

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
        """Return the position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the next read, without a request."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position


_SKIP_BYTES = 1 << 20


class RemoteInput(SeekableFile):
    """A remote file with a position.

    A failed read is retried with a new handle. The file must then have the size, and if the store
    reports them the etag and the time, that it had when it was first opened.
    """

    def __init__(self, url: str, *, block_bytes: int | None = None, at: int = 0) -> None:
        """Open the file; `block_bytes` are fetched per request, None: the default of the store.

        On S3, opening also fetches the bytes at `at`, or the last ones if `at` is negative.
        """
        self._url = url
        self._block_bytes = block_bytes
        self._at = at
        self._is_stream = False
        self._file: Any = None
        self._file_system, self._path = connect(url)
        self._is_s3 = "s3" in self._file_system.protocol
        self._opened = attempt("open", url, self._open)
        if self._opened.size is None:
            self._let_go()
            raise SourceError(f"{url} does not report its size; copy it to a store that does")
        super().__init__(size=self._opened.size)

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer from the current position; fewer bytes only at the end.

        Raises:
            SourceError: The file changed since it was opened.
            TransientIOError: All tries failed in a way that a retry can solve.
        """
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(view.nbytes, self._size - self._position))
        if wanted:
            what = f"{wanted} bytes at {self._position} of"
            attempt(f"read {what}", self._url, lambda: self._fill(view[:wanted]))
        self._position += wanted
        return wanted

    def entry(self, *, again: bool = False) -> Entry:
        """Return the entry of the file when it was opened, or with `again` its current entry.

        On S3 each read requests the same etag, so no second request is needed.
        """
        if not again or self._is_s3:
            return self._opened
        return attempt(
            "access",
            self._url,
            lambda: RemoteTree.entry(self._file_system.info(self._path)),
        )

    def close(self) -> None:
        """Close the remote file."""
        if not self.closed:
            self._let_go()
        super().close()

    def _fill(self, view: memoryview) -> None:
        try:
            if self._file is None:
                self._open_again()
            self._read_into(view)
        except BaseException as error:
            self._let_go()  # the state of the handle after the failed read cannot be trusted
            if isinstance(error, ObjectChangedError) or (
                self._is_s3 and has_status(error, HTTPStatus.PRECONDITION_FAILED)
            ):
                raise self._changed() from None
            raise

    def _read_into(self, view: memoryview) -> None:
        filled = 0
        try:
            self._go_to(self._position)
            while filled < view.nbytes and (data := self._file.read(view.nbytes - filled)):
                view[filled : filled + len(data)] = data
                filled += len(data)
        except ValueError:
            if self._is_stream or not _is_http(self._file_system):
                raise
            # The server cannot send parts of a file, only the whole file.
            self._is_stream = True
            self._let_go()
            self._open_again()
            self._read_into(view)
            return
        if filled < view.nbytes:
            raise ConnectionError(f"the response ended after {filled} bytes")

    def _go_to(self, position: int) -> None:
        """Set the handle's position, which can differ: some stores share a handle among openers."""
        if not self._is_stream:
            self._file.seek(position)
            return
        if self._file.tell() > position:
            self._let_go()
            self._open_again()
        while (left := position - self._file.tell()) > 0:
            if not self._file.read(min(left, _SKIP_BYTES)):
                raise ConnectionError(f"the response ended {left} bytes before where to read")

    def _open(self) -> Entry:
        """Open a handle and return the listing entry of its file."""
        if self._is_s3:
            self._file = S3Object(
                self._file_system, self._path, block_bytes=self._block_bytes, at=self._at
            )
            return cast("Entry", self._file.entry)
        block_bytes = 0 if self._is_stream else self._block_bytes
        options = {} if block_bytes is None else {"block_size": block_bytes}
        self._file = self._file_system.open(self._path, "rb", **options)
        try:
            entry = _entry_of(self._file, self._file_system, self._path)
        except BaseException:
            self._let_go()
            raise
        self._is_stream = self._is_stream or getattr(self._file, "size", entry.size) is None
        return entry

    def _open_again(self) -> None:
        self._at = self._position
        if self._open() != self._opened:
            raise self._changed()

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self._url} changed while it was read; find out what writes it, and run again"
        )

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(Exception):  # nothing was written, so nothing can be lost
                file.close()


def _entry_of(file: IO[bytes], file_system: "AbstractFileSystem", path: str) -> Entry:
    """Return size, etag and time of an open file, with a request only if they are missing."""
    details = getattr(file, "details", None)
    if not isinstance(details, dict) or not details.keys() & VERSION_KEYS:
        details = file_system.info(path)
    return RemoteTree.entry(details)


def _is_http(file_system: "AbstractFileSystem") -> bool:
    return "http" in file_system.protocol
