"""A copy of a remote file on this node's disk, shared by all its processes.

The first bytes of the file identify its content, as by a check sum; the copy is named by their
hash, so that it is never confused with an older one.
"""

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nanotok_ray.errors import TransientIOError
from nanotok_ray.storage.folder import Folder

CACHE_VARIABLE = "NANOTOK_CACHE_DIR"


def local_copy(folder: Folder, name: str, *, head_bytes: int, anew: bool = False) -> Path:
    """Return the path of a file's copy on this node, made unless one of the same size is there.

    One process of a node copies and the others wait for it; where the disk cannot lock, each makes
    a copy and the last one stays. Copies are never removed: they are a cache's to clear.

    Args:
        folder: where the file lies.
        name: its name there.
        head_bytes: how many bytes at its start name its content.
        anew: make the copy even if there is one.

    Raises:
        FileNotFoundError: there is no such file.
        TransientIOError: the store failed in a way that may pass, or the file was just replaced.
        OSError: the copy cannot be written.
    """
    head, size = folder.read_start(name, head_bytes), folder.size(name)
    if size is None:
        raise FileNotFoundError(folder.join(name))
    cache = Folder(str(cache_folder()))
    cache_name = f"{hashlib.sha256(head).hexdigest()}-{name}"
    path = Path(cache.url) / cache_name
    if anew or cache.size(cache_name) != size:
        with _locked(path.parent):
            if anew or cache.size(cache_name) != size:  # else another process made it meanwhile
                _copy(folder, name, cache, cache_name, head=head, size=size)
    return path


def cache_folder() -> Path:
    """Return the folder of this node's copies, making it if need be.

    $NANOTOK_CACHE_DIR, else $XDG_CACHE_HOME/nanotok_ray, else ~/.cache/nanotok_ray; if it cannot be
    written to, a folder of this user's own among the temporary files.

    Raises:
        PermissionError: none of them can be written to.
    """
    tried = list(_candidates())
    for folder, is_shared in tried:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_ours = not is_shared or folder.stat().st_uid == os.getuid()
            if is_ours and os.access(folder, os.W_OK | os.X_OK):
                return folder
    names = ", ".join(str(folder) for folder, _ in tried)
    raise PermissionError(f"no folder for copies of remote files: tried {names}")


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Yield (folder, whether another user could have made it)."""
    if configured := os.environ.get(CACHE_VARIABLE):
        yield Path(configured), False
    elif base := os.environ.get("XDG_CACHE_HOME"):
        yield Path(base) / "nanotok_ray", False
    else:
        with suppress(RuntimeError):  # a user without a home
            yield Path.home() / ".cache" / "nanotok_ray", False
    yield Path(tempfile.gettempdir()) / f"nanotok_ray-{os.getuid()}", True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock out other processes of this node; the lock ends with the process at the latest."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network disks cannot lock
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _copy(
    folder: Folder, name: str, cache: Folder, cache_name: str, *, head: bytes, size: int
) -> None:
    data = folder.read_bytes(name)  # one request: every store can, in ranges not every one
    if len(data) != size or not data.startswith(head):
        raise TransientIOError(
            f"{folder.join(name)} gave {len(data)} bytes where {size} were expected, or others: "
            "it was replaced while it was copied; try again"
        )
    cache.write_whole(cache_name, data)
