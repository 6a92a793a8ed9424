"""Blocks of remote files, kept as files of a folder on this node and shared by its processes.

Takes names that stand for bytes, sizes and bytes; gives mapped files. Does not know where blocks
come from. Nothing is flushed to the disk: a block of another size than expected counts as missing.
"""

import errno
import os
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from nanotok_ray.errors import SourceError
from nanotok_ray.reader.files import Bytes, map_file

_SUFFIX = ".block"
_OWN = re.compile(r"[0-9a-f]{64}-.*\.block(\.[0-9a-f]{32}\.tmp)?")
"""The names of files here, whole or being written: a folder may hold files of others too."""

_SHARE = 16
"""The limit divided by this is how much is written, and at least removed, between two looks."""


class BlockCache:
    """The blocks in one folder, of which those that were not used for longest are removed."""

    def __init__(self, folder: Path, *, most_bytes: int | None = None) -> None:
        """Take a folder that is there; and how many bytes to keep in it, None: all.

        Each process looks now and then at how much there is: together they may pass the limit by
        a sixteenth of it for each.
        """
        self.folder = folder
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._written = 0  # by this process, since it last looked
        self._found: int | None = None  # when it last looked

    def get(self, name: str, num_bytes: int) -> Bytes | None:
        """Map a block and mark it as used; None if there is none of this size."""
        path = self._path(name)
        try:
            with path.open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size != num_bytes:
                    return None
                with suppress(PermissionError):  # of another user
                    os.utime(file.fileno())
                return np.asarray(map_file(file, num_bytes))
        except OSError:  # then it is fetched; if the folder is at fault, `put` says so
            return None

    def put(self, name: str, data: bytes | bytearray) -> Bytes:
        """Keep a block, and map it.

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
                f"cannot write to {self.folder}, the cache of fetched blocks: {why}; give "
                "open_shards another `cache`, or less room as `cache_bytes`",
            ) from error
        self._make_room(len(data))
        return block

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}{_SUFFIX}"

    def _make_room(self, written: int) -> None:
        most = self._most_bytes
        if most is None:
            return
        with self._lock:
            self._written += written
            passed = self._found is None or self._found + self._written > most
            if passed or self._written > most // _SHARE:
                self._found, self._written = self._remove_oldest(most), 0

    def _remove_oldest(self, most: int) -> int:
        """Remove blocks if there are more than allowed; give how many bytes stay."""
        found = sorted(self._files())
        total = sum(size for _, _, size in found)
        if total <= most:
            return total
        for _, path, size in found:
            with suppress(FileNotFoundError):  # another process was faster
                os.unlink(path)  # noqa: PTH108 - it came as a text
            total -= size
            if total <= most - most // _SHARE:
                break
        return total

    def _files(self) -> Iterator[tuple[int, str, int]]:
        """Give when each file here was used last, its path and its size."""
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
                for entry in entries:
                    if _OWN.fullmatch(entry.name):
                        with suppress(FileNotFoundError):
                            status = entry.stat()
                            yield status.st_mtime_ns, entry.path, status.st_size


def cache_below(folder: Path) -> Path:
    """Make the folder of a cache.

    Raises:
        SourceError: it cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise SourceError(
            f"cannot write to {folder}, the cache of fetched blocks: {error.strerror}; give "
            "open_shards another `cache`"
        ) from error
    return folder
