"""Files on remote stores through fsspec, and how stores report that a name exists."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import IO, BinaryIO, TypeVar

from nanotok_ray.errors import TransientIOError
from nanotok_ray.formats import check_size
from nanotok_ray.storage.connect import MAX_CONNECTIONS, RemoteTree, connect, extra_for
from nanotok_ray.storage.inputs import open_input, read_start, version_of
from nanotok_ray.storage.local import WrittenFile
from nanotok_ray.storage.retries import attempt, causes, has_status, transient_errors
from nanotok_ray.storage.s3_object import s3_entry
from nanotok_ray.storage.tree import Entry, check_name, walk

CONDITIONAL = {"s3", "gcs", "azure"}
"""Extras of the stores that support mode `xb`, with packages since 2025."""


def is_precondition_conflict(error: BaseException | None) -> bool:
    """Return whether an exception of a store, or its cause, means that a name exists.

    S3's client raises FileExistsError only if the response names the condition; that of AWS does,
    but other servers can omit it.

    >>> [is_precondition_conflict(e) for e in (FileExistsError(), FileNotFoundError(), None)]
    [True, False, False]
    """
    taken = any(isinstance(cause, FileExistsError) for cause in causes(error))
    return taken or has_status(error, HTTPStatus.PRECONDITION_FAILED)


T = TypeVar("T")

_BLOCK_BYTES = 4 << 20


class RemoteStore:
    """A folder of a remote store."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._file_system, root = connect(url)
        self._root = root.rstrip("/")

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; seekable and buffered."""
        self._path(name)
        return open_input(f"{self.url}/{name}")

    def read_bytes(self, name: str, *, limit: int | None) -> bytes:
        """Return all bytes of a file; at most one more than the limit is fetched."""
        if limit is not None:
            data = self.read_start(name, limit + 1)
            check_size(len(data), limit=limit, name=f"{self.url}/{name}")
            return data
        path = self._path(name)
        # With several parts, S3's file system would request the size first.
        options = {"max_concurrency": 1} if "s3" in self._file_system.protocol else {}
        read = partial(self._file_system.cat_file, path, **options)
        return bytes(self._attempt("read", name, read))

    def read_start(self, name: str, length: int) -> bytes:
        """Return the first bytes of a file."""
        self._path(name)
        return read_start(f"{self.url}/{name}", length)

    @contextmanager
    def create(self, name: str, *, is_durable: bool = True) -> Iterator[WrittenFile]:
        """Write a file that becomes visible when it is closed; discard it after an error.

        Data that has been sent cannot be sent again here: the store's client retries its parts.
        """
        del is_durable  # every object is
        with self._sink(name, "wb") as (sink, file):
            yield file
            with self._transient("publish", name):
                sink.close()

    @contextmanager
    def create_once(self, name: str) -> Iterator[WrittenFile]:
        """Write a file like `create`, under a name that never gets other bytes.

        If the store supports it, the store itself refuses an existing name. If the name holds the
        same bytes, the file counts as published; other bytes belong to no record and are removed.

        Raises:
            TransientIOError: The name held other bytes; they are removed, so a retry can publish.
        """
        if "::" in self.url or extra_for(self.url) not in CONDITIONAL:
            with self.create(name) as file:
                yield file
            return
        with self._sink(name, "xb") as (sink, file):
            yield file
            try:
                with self._transient("publish", name):
                    sink.close()
            except Exception as error:
                if not is_precondition_conflict(error):
                    raise
                self._settle(name, file, error)
                self._discard(sink, name)

    def write_bytes(
        self, name: str, data: bytes, *, check: Callable[[], object] = lambda: None
    ) -> None:
        """Publish a file in one step, replacing an existing one.

        `check` is called directly before each try to write; an error that it raises is final.
        """
        path = self._path(name)

        def write() -> None:
            check()
            self._file_system.pipe_file(path, data)

        self._attempt("write", name, write)

    def create_empty(self, name: str) -> None:
        """Create an empty file."""
        self.write_bytes(name, b"")

    def write_new(self, name: str, data: bytes) -> bool:
        """Publish a file unless the name exists; atomically on S3, GCS and Azure.

        A name that holds the same bytes counts as published: an earlier try may have stored them
        without receiving the response.
        """
        path = self._path(name)
        try:
            self._attempt(
                "create",
                name,
                lambda: self._file_system.pipe_file(path, data, mode="create"),
            )
        except Exception as error:
            if not is_precondition_conflict(error):
                raise
            with suppress(FileNotFoundError):  # removed in the meantime
                return self.read_start(name, len(data) + 1) == data
            return False
        return True

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        path = self._path(name)
        if "s3" not in self._file_system.protocol:
            entry = RemoteTree(self._file_system).look_at(path)
            return None if entry is None or entry.is_folder else entry.size
        try:
            return self._attempt("access", name, lambda: s3_entry(self._file_system, path)).size
        except FileNotFoundError:
            return None

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return name and size of every file of the folder whose name begins with a prefix."""
        start = f"{self._root}/{prefix.rpartition('/')[0]}".rstrip("/")
        tree, inside = RemoteTree(self._file_system), len(self._root) + 1

        def list_matching(folder: str) -> Iterator[Entry]:
            for entry in tree.list_folder(folder):
                name = f"{entry.path[inside:]}/" if entry.is_folder else entry.path[inside:]
                if name.startswith(prefix):
                    yield entry

        return {entry.path[inside:]: entry.size or 0 for entry in walk(list_matching, start)}

    def remove(self, name: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        path = self._path(name)
        with suppress(FileNotFoundError):
            self._attempt("remove", name, lambda: self._file_system.rm_file(path))

    def remove_below(self, prefix: str) -> None:
        """Remove the files whose names begin with a prefix, in parallel."""
        with ThreadPoolExecutor(max_workers=MAX_CONNECTIONS) as pool:
            list(pool.map(self.remove, self.sizes(prefix)))

    def _path(self, name: str) -> str:
        return f"{self._root}/{check_name(name)}"

    def _attempt(self, action: str, name: str, operation: Callable[[], T]) -> T:
        return attempt(action, f"{self.url}/{name}", operation)

    def _transient(self, action: str, name: str) -> AbstractContextManager[None]:
        return transient_errors(action, f"{self.url}/{name}")

    @contextmanager
    def _sink(self, name: str, mode: str) -> Iterator[tuple[IO[bytes], WrittenFile]]:
        """Open a sink, and discard it after an error."""
        path = self._path(name)
        sink: IO[bytes] = self._attempt("create", name, lambda: self._file_system.open(path, mode))

        def write(data: memoryview) -> None:
            with self._transient("write", name):
                sink.write(data)

        try:
            yield sink, WrittenFile(write)
        except BaseException:
            self._discard(sink, name)
            raise

    def _settle(self, name: str, file: WrittenFile, error: Exception) -> None:
        """Accept a name that holds these bytes as published; remove it if it holds other bytes."""
        with suppress(FileNotFoundError):  # removed in the meantime
            if self._holds(name, file):
                return
        self.remove(name)
        raise TransientIOError(
            f"cannot publish {self.url}/{name} for now: other bytes, which no record names, had "
            "its name and were removed; try again"
        ) from error

    def _holds(self, name: str, file: WrittenFile) -> bool:
        digest = hashlib.sha256()
        with self.open(name) as stored:
            if version_of(stored).size != file.size:
                return False
            while block := stored.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest() == file.sha256

    def _discard(self, sink: IO[bytes], name: str) -> None:
        """Remove written data; failures do not hide the error that was raised before."""
        from fsspec.spec import AbstractBufferedFile  # noqa: PLC0415 - remote stores alone need it

        with suppress(Exception):
            if isinstance(sink, AbstractBufferedFile):
                sink.discard()
            else:
                # Not an object store: the file got its name when it was opened.
                sink.close()
                self._file_system.rm_file(self._path(name))
        if isinstance(sink, AbstractBufferedFile):
            sink.closed = True  # otherwise the garbage collector would close and so publish it
