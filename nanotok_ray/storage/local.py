"""Atomic writing of files on a local or mounted disk.

Names are relative to one folder; writers publish on a clean exit. Operations are retried after
transient errors of the operating system; others are raised unchanged, with the path.
"""

import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Concatenate, ParamSpec, TypeVar

from nanotok_ray.errors import CorruptOutputError, DiskFullError
from nanotok_ray.formats import InnerFiles, check_size, not_regular, open_regular
from nanotok_ray.storage.retries import attempt, named, transient_errors
from nanotok_ray.storage.tree import check_name, is_temporary
from nanotok_ray.system import has_processes
from nanotok_ray.units import format_bytes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

BUFFER_BYTES = 1 << 20
"""Size of the buffer of an open file; smaller if the blocks of a remote file are smaller."""

_MAX_NAME_CHARS = 120  # of 255; the temporary name adds the host name and more
_MAX_HOST_CHARS = 40
_ATTEMPT = re.compile(r"(?:.*/)?(\.[^/]+\.[^/]*)-(\d+)-[0-9a-f]{12}\.tmp")


class WrittenFile:
    """A file being written, with the size and the hash of its content."""

    def __init__(self, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes written so far."""

    def write(self, data: "ReadableBuffer") -> None:
        """Append bytes or any contiguous buffer, such as a numpy array."""
        view = memoryview(data)
        view = view.cast("B") if view.nbytes else memoryview(b"")  # an empty array cannot be cast
        self.size += view.nbytes
        self._write(view)
        self._hash.update(view)

    @property
    def sha256(self) -> str:
        """The sha256 of the bytes written so far, in hex."""
        return self._hash.hexdigest()


class LocalInput(io.FileIO):
    """A local file that is read; reads are retried after transient errors."""

    def __init__(self, file: str | int, *, path: str) -> None:
        """Open a path, or take over a descriptor; `path` is for messages."""
        super().__init__(file)
        self._path = path

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fill a buffer, or the start of it; return 0 at the end."""
        return attempt("read", self._path, lambda: self._read_once(buffer))

    def _read_once(self, buffer: "WriteableBuffer") -> int:
        if hasattr(os, "readv"):
            return os.readv(self.fileno(), [buffer])
        return super().readinto(buffer) or 0  # Windows

    read = io.RawIOBase.read  # type: ignore[assignment] # these call `readinto`
    readall = io.RawIOBase.readall


def open_local(file: str | int, *, path: str) -> BinaryIO:
    """Open a local file for reading, with a buffer; arguments as those of `LocalInput`."""
    return io.BufferedReader(LocalInput(file, path=path), buffer_size=BUFFER_BYTES)


P = ParamSpec("P")
T = TypeVar("T")
_Method = Callable[Concatenate["LocalStore", str, P], T]


def _retried(action: str) -> Callable[[_Method[P, T]], _Method[P, T]]:
    """Return a decorator for methods of a name that are retried after transient errors."""

    def decorate(method: _Method[P, T]) -> _Method[P, T]:
        @wraps(method)
        def retried(store: "LocalStore", name: str, /, *args: P.args, **options: P.kwargs) -> T:
            return attempt(
                action, str(store.root / name), lambda: method(store, name, *args, **options)
            )

        return retried

    return decorate


class LocalStore:
    """A folder on a disk, which is created with the first file."""

    def __init__(self, root: str, *, follow_links: bool = False) -> None:
        self.root = Path(root)
        self._files = InnerFiles(self.root)
        self._follow_links = follow_links

    def path(self, name: str) -> Path:
        """Return the path of a name, whose folder must be inside this one.

        Raises:
            CorruptOutputError: The name or a link leads out of the folder; all methods raise it.
        """
        check_name(name)
        return self.root / name if self._follow_links else Path(self._files.path(name))

    @_retried("open")
    def open(self, name: str) -> BinaryIO:
        """Open a regular file for reading, with a buffer.

        Raises:
            CorruptOutputError: The file is a pipe, a socket or a device.
        """
        return open_local(self._descriptor(name), path=str(self.root / name))

    @_retried("read")
    def read_bytes(self, name: str, *, limit: int | None) -> bytes:
        """Return all bytes of a file."""
        with os.fdopen(self._descriptor(name), "rb", buffering=0) as file:
            if limit is not None:
                size = os.fstat(file.fileno()).st_size
                check_size(size, limit=limit, name=str(self.root / name))
            return file.readall()

    @_retried("read")
    def read_start(self, name: str, length: int) -> bytes:
        """Return the first bytes of a file."""
        with self.open(name) as file:
            return file.read(length)

    def _descriptor(self, name: str) -> int:
        path = self.path(name)
        return open_regular(str(path)) if self._follow_links else self._files.open(name)

    @contextmanager
    def create(self, name: str, *, is_durable: bool) -> Iterator[WrittenFile]:
        """Write a file under a temporary name beside it, then publish it on a clean exit.

        If it is durable, the file and its folder are synchronized to disk (fsync), so that the new
        name survives a power failure.

        Raises:
            DiskFullError: No space is left, or a quota is used up; all methods that write raise
                it.
        """
        with (
            transient_errors("write", str(self.root / name)),
            self._created(name, is_durable=is_durable) as file,
        ):
            yield file

    @contextmanager
    def _created(
        self, name: str, *, check: Callable[[], object] = lambda: None, is_durable: bool = True
    ) -> Iterator[WrittenFile]:
        path = self.path(name)
        with self._temporary(path, is_durable=is_durable) as (temporary, file):
            yield file
        try:
            check()
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if is_durable:
            _sync_folder(path.parent)

    def create_once(self, name: str) -> AbstractContextManager[WrittenFile]:
        """Write a file like `create`; replacing a file by the same bytes is harmless."""
        return self.create(name, is_durable=True)

    @_retried("write")
    def write_bytes(
        self, name: str, data: bytes, *, check: Callable[[], object] = lambda: None
    ) -> None:
        """Publish a file in one step, replacing an existing one.

        `check` is called directly before the file gets its name; if it raises an error, the file is
        discarded.
        """
        with self._created(name, check=check) as file:
            file.write(data)

    @_retried("create")
    def create_empty(self, name: str) -> None:
        """Create an empty file, which need not survive a power failure."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def write_new(self, name: str, data: bytes) -> bool:
        """Publish a file unless the name exists; return whether it was published.

        A hard link fails atomically if the name exists, also on NFS, where O_EXCL is not reliable.
        """
        path = self.path(name)
        temporary = attempt("write", str(path), lambda: self._written(path, data))
        try:
            return attempt("write", str(path), lambda: _link(temporary, path))
        finally:
            temporary.unlink(missing_ok=True)

    def link(self, other: str, name: str) -> bool:
        """Publish a hard link to a file elsewhere, replacing an existing file, if possible.

        Return False if the disks differ or the file system does not support hard links.
        """
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(_temporary_name(path.name))
        try:
            os.link(other, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            return False
        try:
            temporary.replace(path)
        finally:
            temporary.unlink(
                missing_ok=True
            )  # a link to the same file leaves the temporary name in place
        _sync_folder(path.parent)
        return True

    @_retried("read")
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it does not exist."""
        try:
            path = self.path(name)
            status = path.stat() if self._follow_links else self._files.status(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISREG(status.st_mode):
            return status.st_size
        if stat.S_ISDIR(status.st_mode):
            return None
        raise CorruptOutputError(not_regular(str(path)))

    @_retried("list")
    def sizes(self, prefix: str) -> dict[str, int]:
        """Return name and size of every file of the folder whose name begins with a prefix."""
        folder = prefix.rpartition("/")[0]
        start = str(self.path(folder) if folder else self.root)
        sizes = {}
        for top, folders, names in os.walk(start, onerror=_raise_unless_missing):
            inside = Path(top).relative_to(self.root).as_posix()
            inside = "" if inside == "." else f"{inside}/"
            if top == start:
                folders[:] = [name for name in folders if f"{inside}{name}/".startswith(prefix)]
            for name in names:
                if f"{inside}{name}".startswith(prefix):
                    # a temporary file can be published in the meantime
                    with suppress(FileNotFoundError):
                        sizes[f"{inside}{name}"] = Path(top, name).stat().st_size
        return sizes

    @_retried("remove")
    def remove(self, name: str) -> None:
        """Remove a file; do nothing if it does not exist."""
        self.path(name).unlink(missing_ok=True)

    @_retried("remove")
    def remove_below(self, prefix: str) -> None:
        """Remove the folder of a prefix with all of its files."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path(prefix.rstrip("/")))

    def _written(self, path: Path, data: bytes) -> Path:
        with self._temporary(path) as (temporary, file):
            file.write(data)
        return temporary

    @contextmanager
    def _temporary(
        self, path: Path, *, is_durable: bool = True
    ) -> Iterator[tuple[Path, WrittenFile]]:
        temporary = path.with_name(_temporary_name(path.name))
        file: WrittenFile | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb", buffering=BUFFER_BYTES) as sink:
                file = WrittenFile(named(str(path))(sink.write))
                yield temporary, file
                with named(str(path)):
                    sink.flush()
                    if is_durable:
                        os.fsync(sink.fileno())
        except BaseException as error:
            full = _disk_full(error, path, size=file.size if file else 0)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            if full is not None:
                raise full from error
            raise


def _disk_full(error: BaseException, path: Path, *, size: int) -> DiskFullError | None:
    """Return the error for a write that failed because of a full disk or a used-up quota.

    >>> print(_disk_full(OSError(errno.EDQUOT, "quota"), Path("/nowhere/a"), size=2_000_000))
    /nowhere/a needs at least 2.0 MB, and the disk quota of its folder is used up; free some...
    """
    if not isinstance(error, OSError) or error.errno not in {errno.ENOSPC, errno.EDQUOT}:
        return None
    left = "the disk quota of its folder is used up"
    if error.errno == errno.ENOSPC:
        left = f"its disk is full ({format_bytes(_free_bytes(path))} free)"
    return DiskFullError(
        f"{path} needs at least {format_bytes(size)}, and {left}; free some space there or choose "
        "another folder, then run the same command again: it resumes"
    )


def _free_bytes(path: Path) -> int:
    """Return the free bytes of the disk of a path, or 0 if unknown."""
    folder = next((parent for parent in path.parents if parent.exists()), Path("/"))
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def _temporary_name(name: str) -> str:
    """Return a name that is unique to this attempt, also among hosts that share the disk."""
    host = socket.gethostname()[:_MAX_HOST_CHARS]
    attempt = f"{host}-{os.getpid()}-{secrets.token_hex(6)}"
    temporary = f".{name[:_MAX_NAME_CHARS]}.{attempt}.tmp"
    assert is_temporary(temporary)
    return temporary


def writer_is_alive(name: str) -> bool | None:
    """Return whether the process that writes a temporary file is alive, or None if unknown.

    It is unknown on other hosts and outside of Linux.

    It counts as alive if the name is not that of a temporary file of this software.

    >>> writer_is_alive(_temporary_name("a.bin")), writer_is_alive(".a.bin.host-1-0123456789ab.tmp")
    (True, None)
    """
    matched = _ATTEMPT.fullmatch(name)
    if matched is None:
        return True
    if not matched[1].endswith(f".{socket.gethostname()[:_MAX_HOST_CHARS]}"):
        return None
    return Path(f"/proc/{matched[2]}").exists() if has_processes() else None


def _link(temporary: Path, path: Path) -> bool:
    """Publish a file unless the name exists; return whether it was published."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return path.samefile(temporary)  # an earlier try failed after it had made the link
    _sync_folder(path.parent)
    return True


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with named(str(folder)):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    """Raise errors of `os.walk`, which would otherwise skip folders, except for missing folders."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
