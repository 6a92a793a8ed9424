"""Input files: finding them by glob, file or folder, and opening them."""

import glob
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from nanotok_ray.errors import SourceError
from nanotok_ray.formats import local_path
from nanotok_ray.storage.connect import RemoteTree, connect
from nanotok_ray.storage.local import BUFFER_BYTES, LocalInput, open_local
from nanotok_ray.storage.remote_input import RemoteInput
from nanotok_ray.storage.retries import attempt, has_status
from nanotok_ray.storage.tree import (
    Boundary,
    Entry,
    Hidden,
    LocalTree,
    Tree,
    is_below,
    is_temporary,
    match,
    static_parts,
    walk,
)
from nanotok_ray.units import printable


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file and the attributes that identify its content without reading it."""

    path: str
    """Absolute path, or URL."""
    size: int
    """Size in bytes."""
    etag: str | None = None
    """The store's version of the content, if it has one."""
    mtime_ns: int | None = None
    """Time of the last change in nanoseconds since 1970, if known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFiles:
    """The files of one path of a recipe."""

    folder: str
    """Absolute path or URL of the deepest folder in the path without wildcards."""
    files: tuple[InputFile, ...]
    """Sorted by path."""
    is_folder: bool
    """Whether the path is a folder, and the files are all files below it."""
    hidden: tuple[InputFile, ...] = ()
    """The files that were skipped only because their own name is that of a hidden or temporary
    file, sorted by path."""


_BUCKETS = ("s3://", "gs://", "gcs://")


def find_files(
    path: str, *, written: Mapping[str, str] = MappingProxyType({}), may_miss: bool = False
) -> FoundFiles:
    """Return the files of one glob, file or folder.

    Temporary files (`.tmp`), and files and folders whose names begin with `.` or `_`, are skipped
    unless they are named, as a file or by a part of a glob that begins with the same character.

    Args:
        path: the path or URL.
        written: folders that the caller writes to, by the name of their setting. A path whose
            listing can include one of them, also through links, is refused, even if the folder is
            empty or does not exist yet; otherwise the next run would read the output of this one.
        may_miss: whether the path may match nothing.

    Raises:
        SourceError: The path matches nothing or includes a folder of `written`, or a folder cannot
            be listed.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    tree, inside = _tree_of(path)
    boundary = _boundary(tree, written)
    try:
        listed = _find(
            tree, inside, boundary, name_of=(lambda _: path) if "::" in path else tree.url
        )
    except PermissionError as error:
        raise SourceError(unreadable(path, error)) from error
    if boundary.reached:
        raise SourceError(_reaches(path, boundary, written))
    if not listed.files and not may_miss:
        advice = _missing_bucket(path)
        advice = advice or f"check the path (hidden files are skipped){_base_folder(path)}"
        raise SourceError(f"{printable(path)} matches no file; {advice}")
    return listed


def _missing_bucket(path: str) -> str:
    """Return the next step if the bucket of a URL does not exist, otherwise an empty string."""
    if not path.startswith(_BUCKETS):
        return ""
    file_system, inside = connect(path)
    bucket = inside.partition("/")[0]
    if attempt("access", path, lambda: file_system.exists(bucket)):
        return ""
    return f"there is no bucket {printable(bucket)}, or these credentials may not see it"


def _base_folder(path: str) -> str:
    """Return a note on the folder of relative paths if the path may have been relative."""
    local = local_path(path)
    if local is None or not Path(local).absolute().is_relative_to(Path.cwd()):
        return ""
    return f"; relative paths begin at the working directory, {printable(str(Path.cwd()))}"


def open_input(path: str, *, block_bytes: int | None = None, at: int = 0) -> BinaryIO:
    """Open a file or URL for reading; seekable and buffered.

    Remote files are read in blocks of `block_bytes`, of which about three are held in memory; with
    None, the store's package chooses a size for one large file, such as 50 MB on S3. The position
    is 0. `at` is the position of the first read, or if negative its distance from the end: S3
    returns up to 1 MiB from there when the file is opened, so that a small file needs one request.

    Raises:
        FileNotFoundError: The file does not exist.
        TransientIOError: A remote store failed in a way that a retry can solve; reads raise it
            too.
        SourceError: The store does not report the size; or, in a read, the file has changed.
    """
    local = local_path(path)
    if local is None:
        buffer_bytes = min(BUFFER_BYTES, block_bytes or BUFFER_BYTES)
        file = RemoteInput(path, block_bytes=block_bytes, at=at)
        return io.BufferedReader(file, buffer_size=buffer_bytes)
    return attempt("open", local, lambda: open_local(local, path=local))


def version_of(file: BinaryIO, *, again: bool = False) -> InputFile:
    """Return the content version of a file of `open_input`: when opened, or now with `again`.

    Raises:
        FileNotFoundError: A remote file no longer exists.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    raw = file.raw if isinstance(file, io.BufferedReader) else None
    if isinstance(raw, RemoteInput):
        return _input_file(raw.entry(again=again), name=raw.entry().path)
    status = os.fstat(file.fileno())
    return InputFile(path=str(file.name), size=status.st_size, mtime_ns=status.st_mtime_ns)


def read_start(path: str, length: int) -> bytes:
    """Return the first `length` bytes of a file or URL, or all of a shorter one; fetch no more.

    Raises:
        OSError: The file does not exist or cannot be read.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    local = local_path(path)
    if local is not None:
        with attempt("open", local, lambda: LocalInput(local, path=local)) as start:
            return start.read(length) or b""
    file_system, inside = connect(path)
    try:
        # Opening and reading would fetch the read-ahead of the file system: 50 MB on S3.
        data = attempt("read", path, lambda: file_system.cat_file(inside, start=0, end=length))
    except Exception as error:
        if not has_status(error, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            raise
        return b""  # an empty file has no byte for the range to begin with
    return bytes(data[:length])  # some servers ignore ranges and send the whole file


def unreadable(path: str, error: OSError) -> str:
    """Return the message for a file or URL that cannot be read, including the reason.

    >>> unreadable("/data/a", PermissionError(13, "Permission denied"))
    'cannot read /data/a: Permission denied'
    """
    why = str(error.strerror or error)
    return why if path in why else f"cannot read {path}: {why}"


def _tree_of(url: str) -> tuple[Tree, str]:
    """Return the tree of a path or URL, and the path in it."""
    path = local_path(url)
    if path is not None:
        return LocalTree(), path
    file_system, inside = connect(url)
    return RemoteTree(file_system), inside


def _find(
    tree: Tree, path: str, boundary: Boundary, *, name_of: Callable[[str], str]
) -> FoundFiles:
    """Find files in a tree; an existing path is used as it is, even if it contains wildcards."""
    entry = tree.look_at(path)
    list_folder = boundary.around(tree.list_folder) if boundary.folders else tree.list_folder
    entries: Iterable[Entry] = []
    hidden = Hidden(_hidden(()))
    folder = path if entry is not None and entry.is_folder else static_parts(path)[0]
    if entry is None and glob.has_magic(path):
        folder, parts = static_parts(path)
        hidden = Hidden(_hidden(parts))
        entries = match(list_folder, folder, parts, hidden=hidden)
    elif entry is not None and entry.is_folder:
        entries = walk(list_folder, path, hidden=hidden)
    elif entry is not None:
        folder, entries = path.rpartition("/")[0], [entry]
        boundary.check(path)
    files = {candidate.path: candidate for candidate in entries}
    skipped = {entry.path: entry for entry in hidden.skipped if entry.size is not None}
    for path_ in [path_ for path_ in files if is_temporary(path_) and files[path_] is not entry]:
        skipped[path_] = files.pop(path_)
    return FoundFiles(
        folder=name_of(folder).rstrip("/") or "/",
        files=_sorted_files(files, name_of),
        is_folder=entry is not None and entry.is_folder,
        hidden=_sorted_files(skipped, name_of),
    )


def _sorted_files(
    entries: Mapping[str, Entry], name_of: Callable[[str], str]
) -> tuple[InputFile, ...]:
    return tuple(_input_file(entries[path], name=name_of(path)) for path in sorted(entries))


def _boundary(tree: Tree, written: Mapping[str, str]) -> Boundary:
    """Return the boundary of the folders that are in a tree of this kind."""
    folders = {}
    for key, url in written.items():
        if (local_path(url) is None) == isinstance(tree, RemoteTree):
            other, inside = _tree_of(url)
            folders[other.canonical(inside)] = key
    return Boundary(tree=tree, folders=_outermost(folders))


def _outermost(folders: Mapping[str, str]) -> dict[str, str]:
    """Return the folders that are not inside another one.

    >>> _outermost({"/data/out/work": "output.work", "/data/out": "output.path"})
    {'/data/out': 'output.path'}
    """
    return {
        folder: key
        for folder, key in folders.items()
        if not any(folder != other and is_below(folder, other) for other in folders)
    }


def _reaches(path: str, boundary: Boundary, written: Mapping[str, str]) -> str:
    """Return the message for a path that includes a folder that the caller writes to."""
    reached, key = boundary.reached[0]
    folder = written[key]
    inside = (
        "" if reached.rstrip("/") in {path.rstrip("/"), folder.rstrip("/")} else f" ({reached})"
    )
    return (
        f"{path} reaches {key} = {folder}{inside}: the job would read files that it writes. "
        f"Set {key} to a folder that this path does not reach, or use a narrower path"
    )


def _hidden(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({".", "_"} - {part[:1] for part in parts}))


def _input_file(entry: Entry, *, name: str) -> InputFile:
    if entry.size is None:
        raise SourceError(f"{name} does not report its size; copy it to a store that does")
    return InputFile(path=name, size=entry.size, etag=entry.etag, mtime_ns=entry.mtime_ns)
