"""A folder on a disk or a remote store whose files are written atomically."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import local_path
from nanotok_ray.storage.local import LocalStore, WrittenFile
from nanotok_ray.storage.remote import RemoteStore
from nanotok_ray.storage.tree import check_name, is_temporary

if TYPE_CHECKING:
    import pyarrow as pa


_BLOCK_BYTES = 4 << 20


class Folder:
    """The files below a path or URL; names can contain `/`, and folders are created as needed.

    >>> folder = Folder("memory://example")
    >>> with folder.create("web/part.bin") as file:
    ...     file.write(b"abc")
    >>> file.size, folder.list(), folder.read_bytes("web/part.bin")
    (3, ['web/part.bin'], b'abc')
    """

    def __init__(self, url: str, *, follow_links: bool = False) -> None:
        """Open a folder, which need not exist.

        Only regular files are read. Links inside a local folder are followed; those that lead out
        of it raise a CorruptOutputError, unless `follow_links` is set.
        """
        path = local_path(url)
        self.url = url.rstrip("/") if path is None else path
        """Absolute path or URL without a trailing slash."""
        self._follow_links = follow_links
        self._store = (
            RemoteStore(self.url) if path is None else LocalStore(path, follow_links=follow_links)
        )

    def join(self, name: str) -> str:
        """Return the path or URL of a name."""
        return f"{self.url.rstrip('/')}/{check_name(name)}"

    def inside(self, name: str) -> str:
        """Return the path or URL of a folder in this folder, for another `Folder`.

        Raises:
            CorruptOutputError: The name, or a link in the path, leads out of this folder.
        """
        if isinstance(self._store, LocalStore):
            return str(self._store.path(f"{name}/-").parent)
        return self.join(name)

    def local_path(self, name: str) -> str | None:
        """Return the path of a name on a local disk, or None for a remote store."""
        return local_path(self.join(name))

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; seekable and buffered.

        Raises:
            FileNotFoundError: The file does not exist.
            CorruptOutputError: A link leads out of the folder, or the file is not a regular file;
                all methods that access a file raise it.
            TransientIOError: Storage failed in several tries; all methods raise it.
        """
        return self._store.open(name)

    @contextmanager
    def open_verified(self, name: str, *, sha256: str) -> Iterator["VerifiedFile"]:
        """Open a file that is read from its start, and compare its sha256 (hex) when it was read.

        The comparison is made when the block ends without an error; the bytes that the block did
        not read are read then.

        Raises:
            CorruptOutputError: When the block ends: the file has another sha256.
        """
        with self.open(name) as file:
            verified = VerifiedFile(file, name=self.join(name))
            yield verified
            while verified.read(_BLOCK_BYTES):
                pass
            if verified.sha256 != sha256:
                raise CorruptOutputError(
                    f"{verified.name} has another sha256 than its record says: it was changed; "
                    "delete it and run the job again, which writes it again"
                )

    def read_bytes(self, name: str, *, limit: int | None = None) -> bytes:
        """Return all bytes of a file.

        Raises:
            FileNotFoundError: The file does not exist.
            CorruptOutputError: The file has more than `limit` bytes.
        """
        return self._store.read_bytes(name, limit=limit)

    def read_verified(self, name: str, *, sha256: str) -> bytes:
        """Return all bytes of a file with this sha256 (hex).

        Raises:
            FileNotFoundError: The file does not exist.
            CorruptOutputError: The file has another sha256.
        """
        with self.open_verified(name, sha256=sha256) as file:
            return file.read()

    def read_start(self, name: str, length: int) -> bytes:
        """Return the first `length` bytes of a file, or all of a shorter one; fetch no more."""
        return self._store.read_start(name, length)

    def write_bytes(
        self, name: str, data: bytes, *, check: Callable[[], object] = lambda: None
    ) -> None:
        """Publish a file in one step, replacing an existing one.

        `check` is called directly before the file gets its name, after all bytes were written to a
        local disk. If it raises an error, nothing is published.
        """
        self._store.write_bytes(name, data, check=check)

    def create_empty(self, name: str) -> None:
        """Create an empty file; on a local disk it can be lost in a power failure."""
        self._store.create_empty(name)

    def write_new(self, name: str, data: bytes) -> bool:
        """Publish a file unless the name exists; return whether it was published.

        This is atomic on local disks, S3, GCS and Azure; elsewhere two concurrent writers can both
        succeed. On a remote store a name that already holds the same bytes counts as published,
        since a lost response looks the same: competing writers must write different bytes.
        """
        return self._store.write_new(name, data)

    def create(self, name: str, *, is_durable: bool = True) -> AbstractContextManager[WrittenFile]:
        """Open a file for writing that is published when the block ends without an error.

        Until then the name keeps its previous content. After an error nothing is left, except on
        remote stores that are not object stores, where the previous file may be removed. On a local
        disk, a file that is not durable can be lost or damaged in a power failure.
        """
        return self._store.create(name, is_durable=is_durable)

    def create_once(self, name: str) -> AbstractContextManager[WrittenFile]:
        """Open a file for writing, like `create`, under a name that never gets other bytes.

        On S3, GCS and Azure the store refuses an existing name, so a late attempt never replaces
        an object that a record names. The same bytes count as published. Other bytes belong to no
        record: they are removed, and the attempt fails.

        Raises:
            TransientIOError: When the block ends: the name held other bytes, or a remote store
                failed in a way that a retry can solve.
        """
        return self._store.create_once(name)

    def take(self, source: "Folder", name: str, as_name: str) -> tuple[int, str]:
        """Publish a file of another folder under a name; return its size and sha256 (hex).

        On the same disk it becomes a hard link, which is safe for files that are never changed in
        place; otherwise a copy.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        path, store = source.local_path(name), self._store
        with source.open(name) as file:
            if (
                path is not None
                and isinstance(store, LocalStore)
                and store.link(os.path.realpath(path), as_name)
            ):
                return self.size(as_name) or 0, self.sha256(as_name)
            return self._copy(file, as_name)

    def _copy(self, file: BinaryIO, as_name: str) -> tuple[int, str]:
        with self.create(as_name) as copy:
            while block := file.read(_BLOCK_BYTES):
                copy.write(block)
        return copy.size, copy.sha256

    def exists(self, name: str) -> bool:
        """Return whether a file of that name exists."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        return self._store.size(name)

    def sha256(self, name: str) -> str:
        """Return the sha256 of a file in hex; it is read in blocks.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        digest = hashlib.sha256()
        with self.open(name) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def list_temporaries(self, prefix: str = "") -> list[str]:
        """Return the sorted names of temporary files of writers, including killed ones."""
        return sorted(filter(is_temporary, self._store.sizes(prefix)))

    def list(self, prefix: str = "") -> list[str]:
        """Return the sorted names of all files, at any depth, that begin with a prefix."""
        return sorted(self.sizes(prefix))

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name and size of the files that `list` returns, with a single listing."""
        return {n: size for n, size in self._store.sizes(prefix).items() if not is_temporary(n)}

    def remove(self, name: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        self._store.remove(name)

    def remove_below(self, prefix: str) -> None:
        """Remove all files whose names begin with a prefix that ends with a slash."""
        self._store.remove_below(prefix)

    def __repr__(self) -> str:
        return f"Folder({self.url!r})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (partial(Folder, follow_links=self._follow_links), (self.url,))


class VerifiedFile:
    """A file that is read once from start to end, with the sha256 of the bytes that were read."""

    closed = False

    def __init__(self, file: BinaryIO, *, name: str) -> None:
        self.name = name
        self._file = file
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, up to `size`, or all with -1."""
        data = self._file.read(size)
        self._digest.update(data)
        return data

    @property
    def sha256(self) -> str:
        """The sha256 of the bytes read so far, in hex."""
        return self._digest.hexdigest()


def arrow_sink(file: WrittenFile) -> "pa.NativeFile":
    """Return a sink for Arrow; closing it leaves the file open, so that its opener publishes it."""
    import pyarrow as pa  # noqa: PLC0415 - storage is used without it

    return pa.PythonFile(_Sink(file), mode="w")


class _Sink:
    closed = False

    def __init__(self, file: WrittenFile) -> None:
        self._file = file
        self.write = file.write

    def tell(self) -> int:
        return self._file.size

    def flush(self) -> None:
        """Do nothing: publishing the file flushes it."""

    def close(self) -> None:
        """Do nothing: the opener closes the file."""
