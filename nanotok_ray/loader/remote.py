"""Files of an output on a remote store, read in blocks that the processes of a node share."""

import errno
import os
import re
import tempfile
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import SHARDS_INDEX_NAME, StoredShard, check_size
from nanotok_ray.loader.files import Bytes, map_file
from nanotok_ray.storage import Folder, RemoteInput
from nanotok_ray.system import user_id

if TYPE_CHECKING:
    from nanotok_ray.storage import Entry


CACHE_VARIABLE = "NANOTOK_CACHE_DIR"

_SUFFIX = ".block"
_BLOCK_NAME = re.compile(r"[0-9a-f]{64}-.*\.block(\.[0-9a-f]{32}\.tmp)?")
"""The names of complete and of unfinished blocks; a folder can hold other files too."""

_ABANDONED_SECONDS = 3600  # an unfinished file of this age is abandoned

_SHARE = 16
"""The fraction of the limit: a check follows every limit / _SHARE bytes written, and removes at
least as many bytes if necessary.
"""


class BlockCache:
    """The blocks in one folder, of which the least recently used are removed."""

    def __init__(self, folder: Path, *, max_bytes: int | None = None) -> None:
        """Use an existing folder and keep at most `max_bytes` in it, or all blocks if None.

        Each process checks the total from time to time, so that N processes can exceed the limit by
        N sixteenths of it.
        """
        self.folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._written = 0  # by this process, since its last check
        self._total: int | None = None  # at its last check

    def get(self, name: str, num_bytes: int) -> Bytes | None:
        """Map a block and mark it as used. Return None if no block has this name and size."""
        path = self._path(name)
        try:
            with path.open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != num_bytes:
                    return None
                with suppress(PermissionError):  # a file of another user
                    os.utime(file.fileno())
                return np.asarray(map_file(file, num_bytes))
        except OSError:  # the block is fetched; `put` reports an unusable folder
            return None

    def put(self, name: str, data: bytes | bytearray) -> Bytes:
        """Store a block and map it.

        Raises:
            OSError: the folder cannot be written.
        """
        path = self._path(name)
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(data)
                with temporary.open("rb", buffering=0) as file:
                    block = np.asarray(map_file(file, len(data)))
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                error.errno,
                f"cannot write to {self.folder}, the cache of fetched blocks: {why}; pass another "
                "`cache` or a smaller `cache_bytes` to open_shards",
            ) from error
        self._make_room(len(data))
        return block

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}{_SUFFIX}"

    def _make_room(self, written: int) -> None:
        limit = self._max_bytes
        if limit is None:
            return
        with self._lock:
            self._written += written
            passed = self._total is None or self._total + self._written > limit
            if passed or self._written > limit // _SHARE:
                self._total, self._written = self._remove_oldest(limit), 0

    def _remove_oldest(self, limit: int) -> int:
        """Remove the oldest blocks beyond the limit; return the bytes that remain."""
        blocks = sorted(self._files())
        total = sum(size for _, _, size in blocks)
        if total <= limit:
            return total
        for _, path, size in blocks:
            with suppress(FileNotFoundError):  # another process was faster
                os.unlink(path)  # noqa: PTH108 - it came as a text
            total -= size
            if total <= limit - limit // _SHARE:
                break
        return total

    def _files(self) -> Iterator[tuple[int, str, int]]:
        """Yield the time of last use, path and size of each complete block in the folder."""
        abandoned = time.time() - _ABANDONED_SECONDS
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
                for entry in entries:
                    if _BLOCK_NAME.fullmatch(entry.name):
                        with suppress(FileNotFoundError):
                            status = entry.stat()
                            if not entry.name.endswith(".tmp") or status.st_mtime < abandoned:
                                yield status.st_mtime_ns, entry.path, status.st_size


def _writable(folder: Path) -> Path:
    """Create the folder of a cache.

    Raises:
        SourceError: the folder cannot be created or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise SourceError(
            f"cannot write to {folder}, the cache of fetched blocks: {error.strerror}; pass "
            "another `cache` to open_shards"
        ) from error
    return folder


BLOCK_BYTES = 4 << 20
_RECENT = 16
"""Maximum number of blocks that stay mapped."""
_HANDLES = 4
"""Maximum number of files that stay open on the store: each handle holds its last fetched bytes."""
_READ_AHEAD_BYTES = 256 << 10  # by fsspec; smaller values are not supported well


def cache_folder() -> Path:
    """Return the folder of this node's cache, and create it if necessary.

    It is $NANOTOK_CACHE_DIR, else $XDG_CACHE_HOME/nanotok_ray, else ~/.cache/nanotok_ray; if none
    of these is writable, a folder of this user in the folder of temporary files.

    Raises:
        PermissionError: None of them is writable.
    """
    tried = list(_candidates())
    for folder, is_shared in tried:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_ours = not is_shared or folder.stat().st_uid == user_id()
            if is_ours and os.access(folder, os.W_OK | os.X_OK):
                return folder
    names = ", ".join(str(folder) for folder, _ in tried)
    raise PermissionError(f"no folder for copies of remote files: tried {names}")


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Yield (folder, whether another user may have created it)."""
    if configured := os.environ.get(CACHE_VARIABLE):
        yield Path(configured), False
    elif base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base) / "nanotok_ray", False
    else:
        with suppress(RuntimeError):  # a user without a home folder
            yield Path.home() / ".cache" / "nanotok_ray", False
    yield Path(tempfile.gettempdir()) / f"nanotok_ray-{user_id()}", True


class RemoteFiles:
    """The files of a folder on a remote store. It can be used by threads, and after a fork."""

    def __init__(self, url: str, *, cache: Path | None, cache_bytes: int | None) -> None:
        """Store the URL, the folder of blocks, and the limit of bytes in the folder.

        Without a folder, the blocks are in the cache folder of this node.

        Raises:
            SourceError: The store is unknown, the folder is not writable, or the limit is too
                small for a block.
        """
        if cache_bytes is not None and cache_bytes < BLOCK_BYTES:
            raise SourceError(
                f"cache_bytes is {cache_bytes:,}; one block of {BLOCK_BYTES:,} is the least"
            )
        self.url = url.rstrip("/")
        self._cache = _writable(cache or cache_folder() / "shards")
        self._cache_bytes = cache_bytes
        self._process = self._new_process(None)

    def copy(self) -> "RemoteFiles":
        """Return an object for the same files and cache that does not wait for requests of this."""
        return RemoteFiles(self.url, cache=self._cache, cache_bytes=self._cache_bytes)

    def join(self, name: str) -> str:
        """Return the URL of a file."""
        return self._here().folder.join(name)

    def read_bytes(self, name: str, *, limit: int) -> bytes:
        """Return all bytes of a file; see `Files`."""
        url = self.join(name)
        with RemoteInput(url, block_bytes=_READ_AHEAD_BYTES) as file:
            size = file.entry().size or 0
            check_size(size, limit=limit, name=url)
            data = bytearray(size)
            file.readinto(data)
        return bytes(data)

    def open(self, shard: StoredShard, suffix: str) -> "RemoteFile":
        """Return a file. The store receives no request before a part of the file is read."""
        return RemoteFile(self, shard, suffix)

    def block(self, file: "RemoteFile", number: int) -> Bytes:
        """Return a block of a file."""
        return self._here().block(file, number)

    def _here(self) -> "_Process":
        if self._process.pid != os.getpid():
            self._process = self._new_process(self._process)
        return self._process

    def _new_process(self, parent: "_Process | None") -> "_Process":
        cache = BlockCache(self._cache, max_bytes=self._cache_bytes)
        return _Process(self.url, cache, parent=parent)


class RemoteFile:
    """A file that is fetched in blocks."""

    mapped: Bytes | None = None

    def __init__(self, files: RemoteFiles, shard: StoredShard, suffix: str) -> None:
        self.name = shard.name + suffix
        self.num_bytes = shard.sizes[suffix]
        number = shard.name.rpartition("/")[2].rpartition("-")[0].rpartition("-")[2]
        self.content = f"{shard.record_sha256}-{number}{suffix}"
        """A name for copies of the file, which no file with other bytes has in any output."""
        self.block_bytes = BLOCK_BYTES
        if suffix not in {".bin", ".mask"}:  # the others are read at once
            self.block_bytes = max(self.num_bytes, 1)
        self.entry: Entry | None = None
        """The entry that the store returned when the file was first opened."""
        self.last = -2
        """The number of the last requested block."""
        self._files = files

    def part(self, start: int, stop: int) -> Bytes:
        """Return its bytes from `start` up to `stop`: a view of one block, or a copy from several.

        Raises:
            CorruptOutputError: The file is missing, or its size differs from shards.idx.
            SourceError: The file was replaced since it was opened.
            OSError: The cache cannot be written.
        """
        if start >= stop:
            return np.zeros(0, dtype=np.uint8)
        size = self.block_bytes
        numbers = range(start // size, (stop - 1) // size + 1)
        parts = [
            self._files.block(self, number)[max(start - number * size, 0) : stop - number * size]
            for number in numbers
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def bytes_of(self, number: int) -> int:
        """Return the size of a block; the last one can be shorter."""
        return min(self.block_bytes, self.num_bytes - number * self.block_bytes)


class _Process:
    """The resources of one process: mapped blocks, handles, and one thread."""

    def __init__(self, url: str, cache: BlockCache, *, parent: "_Process | None") -> None:
        self.pid = os.getpid()
        self.folder = Folder(url)
        self._cache = cache
        self._parent = parent  # its handles belong to the parent process
        self._lock = threading.Lock()
        self._recent: OrderedDict[str, Bytes] = OrderedDict()
        self._fetcher = _Fetcher(self.folder)
        self._ahead = _Fetcher(self.folder)
        self._thread: threading.Thread | None = None

    def block(self, file: RemoteFile, number: int) -> Bytes:
        """Return a block; if blocks are read in order, begin to fetch the next one."""
        name = f"{file.content}.{number}"
        with self._lock:
            block = self._recent.get(name)
            if block is None:
                block = self._recent[name] = self._find(file, number, name)
                if len(self._recent) > _RECENT:
                    self._recent.popitem(last=False)
            self._recent.move_to_end(name)
            if number == file.last + 1:
                self._begin(file, number + 1)
            file.last = number
        return block

    def _find(self, file: RemoteFile, number: int, name: str) -> Bytes:
        block = self._cache.get(name, file.bytes_of(number))
        if block is None and self._thread is not None and self._thread.name == file.content:
            self._thread.join()  # it may fetch this block; on some stores a file has one position
            block = self._cache.get(name, file.bytes_of(number))
        if block is None:
            block = self._cache.put(name, self._fetcher.fetch(file, number))
        return block

    def _begin(self, file: RemoteFile, number: int) -> None:
        """Fetch a block in the background, unless another fetch is running."""
        if number * file.block_bytes >= file.num_bytes:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        name = f"{file.content}.{number}"
        self._thread = threading.Thread(
            target=self._fetch_ahead, args=(file, number, name), name=file.content, daemon=True
        )
        self._thread.start()

    def _fetch_ahead(self, file: RemoteFile, number: int, name: str) -> None:
        with suppress(Exception):  # a reader of the block fetches it again and gets the error
            if self._cache.get(name, file.bytes_of(number)) is None:
                self._cache.put(name, self._ahead.fetch(file, number))


class _Fetcher:
    """Fetches blocks, for one thread at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._handles: OrderedDict[RemoteFile, RemoteInput] = OrderedDict()

    def fetch(self, file: RemoteFile, number: int) -> bytearray:
        """Fetch a block of a file that must be the one that was opened first."""
        handle = self._handles.pop(file, None)
        if handle is None:
            handle = self._open(file)
        data = bytearray(file.bytes_of(number))
        try:
            handle.seek(number * file.block_bytes)
            handle.readinto(data)
        except BaseException:
            handle.close()
            raise
        self._handles[file] = handle
        if len(self._handles) > _HANDLES:
            self._handles.popitem(last=False)[1].close()
        return data

    def _open(self, file: RemoteFile) -> RemoteInput:
        url = self._folder.join(file.name)
        try:
            handle = RemoteInput(url, block_bytes=_READ_AHEAD_BYTES)
        except FileNotFoundError as error:
            raise CorruptOutputError(
                f"{url} is missing; `nanotok verify {self._folder.url}` says more"
            ) from error
        try:
            _check(file, url, handle.entry())
        except BaseException:
            handle.close()
            raise
        return handle


def _check(file: RemoteFile, url: str, entry: "Entry") -> None:
    """Raise an error if a file has another size or was replaced; remember its entry."""
    if entry.size != file.num_bytes:
        raise CorruptOutputError(
            f"{url} has {entry.size} bytes, {SHARDS_INDEX_NAME} says {file.num_bytes}"
        )
    if file.entry not in {None, entry}:
        raise SourceError(f"{url} was replaced while it was read; open the output again")
    file.entry = entry
