"""Files on remote stores, by way of fsspec.

Takes URLs and names inside one folder; gives bytes, sizes, readers and writers. Failures that may
pass are `TransientIOError`. Does not know local disks or what the files hold.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, TYPE_CHECKING

from fsspec.spec import AbstractBufferedFile

from nanotok_ray.storage.local import WholeFile
from nanotok_ray.storage.positioned import PositionedFile
from nanotok_ray.storage.remote_tree import RemoteTree, connect
from nanotok_ray.storage.transient import transient_errors
from nanotok_ray.storage.tree import walk
from nanotok_ray.storage.urls import check_name

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class RemoteInput(PositionedFile):
    """A remote file to read from, with a position of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        with transient_errors("open", url):
            file_system, path = connect(url)
            self._file = file_system.open(path, "rb")
            super().__init__(size=int(self._file.size))

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer from the current position; fewer bytes only at the end."""
        view = memoryview(buffer).cast("B")
        with transient_errors("read", self._url):
            # Some file systems hand the same object to every opener, so its position is not ours.
            self._file.seek(self._position)
            data = self._file.read(view.nbytes)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        """Let go of the remote file."""
        if not self.closed:
            with suppress(Exception):  # nothing was written, so nothing can be lost
                self._file.close()
        super().close()


class RemoteStore:
    """One folder of a remote store."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._file_system, root = connect(url)
        self._root = root.rstrip("/")

    def read_bytes(self, name: str) -> bytes:
        """Give all bytes of a file."""
        with self._transient("read", name):
            return bytes(self._file_system.cat_file(self._path(name)))

    def read_start(self, name: str, length: int) -> bytes:
        """Give the first bytes of a file."""
        with self._transient("read", name):
            data = self._file_system.cat_file(self._path(name), start=0, end=length)
        return bytes(data[:length])  # some servers know no ranges and send all of it

    @contextmanager
    def create(self, name: str) -> Iterator[WholeFile]:
        """Write a file that an object store shows when it is closed, and discard it on an error."""
        with self._transient("create", name):
            sink = self._file_system.open(self._path(name), "wb")

        def write(data: memoryview) -> None:
            with self._transient("write", name):
                sink.write(data)

        try:
            yield WholeFile(write)
            with self._transient("publish", name):
                sink.close()
        except BaseException:
            self._discard(sink, name)
            raise

    def write_new(self, name: str, data: bytes) -> bool:
        """Publish a file unless the name is taken; in one step where the store can (S3, GCS)."""
        with self._transient("create", name):
            try:
                self._file_system.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
        return True

    def size(self, name: str) -> int | None:
        """Give the bytes of a file, None if there is none."""
        with self._transient("look at", name):
            try:
                details = self._file_system.info(self._path(name))
            except FileNotFoundError:
                return None
        return int(details["size"]) if details["type"] == "file" else None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Give name and size of every file below the folder whose name begins with a prefix."""
        start = f"{self._root}/{prefix.rpartition('/')[0]}".rstrip("/")
        entries = walk(RemoteTree(self._file_system).list_folder, start)
        found = {entry.path[len(self._root) + 1 :]: entry.size or 0 for entry in entries}
        return {name: size for name, size in found.items() if name.startswith(prefix)}

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is fine."""
        with self._transient("remove", name), suppress(FileNotFoundError):
            self._file_system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _transient(self, action: str, name: str) -> AbstractContextManager[None]:
        return transient_errors(action, f"{self.url}/{name}")

    def _discard(self, sink: IO[bytes], name: str) -> None:
        """Leave nothing behind; failures here must not hide the error that led here."""
        with suppress(Exception):
            if isinstance(sink, AbstractBufferedFile):
                sink.discard()
            else:
                # Not an object store: the file took the name when it was opened.
                sink.close()
                self._file_system.rm_file(self._path(name))
        if isinstance(sink, AbstractBufferedFile):
            sink.closed = True  # else the garbage collector would close it, and so publish it
