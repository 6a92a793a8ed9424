"""A folder of files that are whole or absent, on a disk or a remote store."""

import hashlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from nanotok_ray.formats import local_path
from nanotok_ray.storage.inputs import open_input
from nanotok_ray.storage.local import LocalStore, WholeFile
from nanotok_ray.storage.remote import RemoteStore
from nanotok_ray.storage.tree import check_name, is_temporary

if TYPE_CHECKING:
    import pyarrow as pa


_BLOCK_BYTES = 4 << 20


class Folder:
    """Files under one path or URL; names may hold `/`, folders come into being as needed.

    >>> folder = Folder("memory://example")
    >>> with folder.create("web/part.bin") as file:
    ...     file.write(b"abc")
    >>> file.size, folder.list(), folder.read_bytes("web/part.bin")
    (3, ['web/part.bin'], b'abc')
    """

    def __init__(self, url: str) -> None:
        path = local_path(url)
        self.url = url.rstrip("/") if path is None else path
        """Absolute path or URL, without a slash at the end."""
        self._store = RemoteStore(self.url) if path is None else LocalStore(path)

    def join(self, name: str) -> str:
        """Return the path or URL of a name."""
        return f"{self.url.rstrip('/')}/{check_name(name)}"

    def local_path(self, name: str) -> str | None:
        """Return the path of a name on a local disk, None on a remote store."""
        return local_path(self.join(name))

    def read_bytes(self, name: str) -> bytes:
        """Return all bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            TransientIOError: a remote store failed, several times, in a way that may pass (so do
                all methods).
        """
        return self._store.read_bytes(name)

    def read_start(self, name: str, length: int) -> bytes:
        """Return the first `length` bytes of a file, fewer if it has fewer, fetching no others.

        Raises:
            FileNotFoundError: there is none.
        """
        return self._store.read_start(name, length)

    def write_whole(self, name: str, data: bytes) -> None:
        """Publish a file at once, in place of one that may be there."""
        self._store.write_whole(name, data)

    def write_new(self, name: str, data: bytes) -> bool:
        """Publish a file unless the name is taken; return whether it was published.

        One step on local disks, S3 and GCS; elsewhere two writers may both succeed. On a remote
        store a name that holds the same bytes already counts as published, since an answer that got
        lost looks like that: let writers who compete write something of their own.
        """
        return self._store.write_new(name, data)

    def create(self, name: str) -> AbstractContextManager[WholeFile]:
        """Open a file for writing that is published when the block ends without an error.

        Until then the name holds what it held before. On an error nothing is left behind, except on
        remote stores that are not object stores, where the name may be gone.
        """
        return self._store.create(name)

    def create_once(self, name: str) -> AbstractContextManager[WholeFile]:
        """Open a file for writing, as `create` does, whose name stands for its bytes.

        On S3, GCS and Azure the store refuses a name that is taken: an attempt that ends late never
        puts an object in place of one that a record names. The same bytes count as published. Other
        bytes are a leftover that no record names: they are removed, and the attempt is in vain.

        Raises:
            TransientIOError: when the block ends: other bytes were there, or a remote store failed
                in a way that may pass.
        """
        return self._store.create_once(name)

    def take(self, source: "Folder", name: str, as_name: str) -> tuple[int, str]:
        """Publish a file of another folder under a name; return its size and sha256 (hex).

        On one disk it is a hard link, for files that are never changed in place; else a copy.

        Raises:
            FileNotFoundError: there is no such file.
        """
        path, store = source.local_path(name), self._store
        if path is not None and isinstance(store, LocalStore) and store.link(path, as_name):
            return self.size(as_name) or 0, self.sha256(as_name)
        with open_input(source.join(name)) as file, self.create(as_name) as copy:
            while block := file.read(_BLOCK_BYTES):
                copy.write(block)
        return copy.size, copy.sha256

    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, None if there is none."""
        return self._store.size(name)

    def sha256(self, name: str) -> str:
        """Return the hex sha256 of a file, read in blocks.

        Raises:
            FileNotFoundError: there is none.
        """
        digest = hashlib.sha256()
        with open_input(self.join(name)) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def list_temporaries(self, prefix: str = "") -> list[str]:
        """Return the sorted names of files being written, or left by a process that was killed."""
        return sorted(filter(is_temporary, self._store.sizes(prefix)))

    def list(self, prefix: str = "") -> list[str]:
        """Return the sorted names of all files, at any depth, that begin with a prefix."""
        return sorted(self.sizes(prefix))

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name and size of the files that `list` names, for the cost of one listing."""
        return {n: size for n, size in self._store.sizes(prefix).items() if not is_temporary(n)}

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is fine."""
        self._store.remove(name)

    def __repr__(self) -> str:
        return f"Folder({self.url!r})"

    def __reduce__(self) -> tuple[type["Folder"], tuple[str]]:
        return (Folder, (self.url,))


def arrow_sink(file: WholeFile) -> "pa.NativeFile":
    """Return what Arrow writes to; closing it leaves the file open for its opener to publish."""
    import pyarrow as pa  # noqa: PLC0415 - storage is used without it

    return pa.PythonFile(_Sink(file), mode="w")


class _Sink:
    closed = False

    def __init__(self, file: WholeFile) -> None:
        self._file = file
        self.write = file.write

    def tell(self) -> int:
        return self._file.size

    def flush(self) -> None:
        """What is written is there when the file is."""

    def close(self) -> None:
        """The file ends where it was opened."""
