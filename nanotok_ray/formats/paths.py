"""Local paths, and the files of a local folder, none of which leads out of it."""

import errno
import os
import re
import stat
from pathlib import Path
from urllib.parse import unquote

from nanotok_ray.errors import CorruptOutputError

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_READ_FLAGS: int = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
)
"""Windows has the last two of these, other systems the first two."""


def is_inner_name(name: str) -> bool:
    """Return whether a name refers to a file inside a folder.

    >>> is_inner_name("web/train/a.bin"), is_inner_name("../a"), is_inner_name("/a")
    (True, False, False)
    """
    return "\0" not in name and not any(part in {"", ".", ".."} for part in name.split("/"))


def path_inside(root: Path, name: str) -> Path:
    """Return the path of a name in a folder; the file need not exist.

    Raises:
        CorruptOutputError: The name, or a link in the path, leads out of the folder.
    """
    if not is_inner_name(name):
        raise CorruptOutputError(f"{name!r} is not the name of a file inside {root}")
    path = root / name
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:  # circular links
        raise CorruptOutputError(f"{path} cannot be followed: {error}") from error
    if not real.is_relative_to(root.resolve()):
        raise CorruptOutputError(f"{path} is a link out of {root}: it leads to {real}")
    return path


class InnerFiles:
    """The files of a local folder: it opens regular files inside the folder, and nothing else.

    Links inside the folder are followed, links out of it are refused. The folder of a name is
    resolved once, because readers can open 1,000 shards per second.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders: dict[str, str] = {}

    def path(self, name: str) -> str:
        """Return the path of a name whose folder is inside the root; the file need not exist.

        The last part of the path can be a link, which `open` and `status` resolve.

        Raises:
            CorruptOutputError: The name, or a link in the path of its folder, leads out.
        """
        folder, _, last = name.rpartition("/")
        known = self._folders.get(folder)
        if known is not None and is_inner_name(last):
            return f"{known}/{last}"
        if not is_inner_name(name):
            raise CorruptOutputError(f"{name!r} is not the name of a file inside {self.root}")
        parent = str(path_inside(self.root, folder)) if folder else str(self.root)
        if os.path.isdir(parent):  # noqa: PTH112 - a folder that is created later is resolved then
            self._folders[folder] = parent
        return f"{parent}/{last}"

    def status(self, name: str) -> os.stat_result:
        """Return the status of a file or folder; a link inside the root is followed.

        Raises:
            FileNotFoundError, NotADirectoryError: It does not exist.
            CorruptOutputError: The name or a link leads out of the root.
        """
        status = os.lstat(self.path(name))
        return path_inside(self.root, name).stat() if stat.S_ISLNK(status.st_mode) else status

    def open(self, name: str) -> int:
        """Open a regular file for reading and return its descriptor; the call never waits.

        Raises:
            FileNotFoundError, NotADirectoryError, IsADirectoryError: There is no such file.
            CorruptOutputError: The name or a link leads out of the root, or the file is a pipe, a
                socket or a device.
        """
        path = self.path(name)
        try:
            return open_regular(path, _NO_FOLLOW)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return open_regular(str(path_inside(self.root, name)))


def open_regular(path: str, flags: int = 0) -> int:
    """Open a regular file for reading and return its descriptor, without waiting for a writer.

    Raises:
        IsADirectoryError: The path is a folder.
        CorruptOutputError: The path is a pipe, a socket or a device.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS | flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise CorruptOutputError(not_regular(path)) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise CorruptOutputError(not_regular(path))


def not_regular(path: str) -> str:
    """Return the message for a path that is a pipe, a socket or a device."""
    return f"{path} is not a regular file; remove it"


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")


def local_path(url: str) -> str | None:
    """Return the absolute local path of a path or a file URL, or None for a remote store.

    >>> local_path("file:///data/web"), local_path("s3://bucket/web")
    ('/data/web', None)
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return os.path.abspath(url)  # noqa: PTH100 - Path.absolute keeps ".."
    if scheme[1] in {"file", "local"} and scheme[2] == "://":
        return os.path.abspath(unquote(url[scheme.end() :]))  # noqa: PTH100
    return None


def is_local(url: str) -> bool:
    """Return whether a path or URL is on a local disk (or a mounted one)."""
    return local_path(url) is not None
