"""Input files: finding them by glob, file or folder, and opening them.

Takes paths and URLs; gives what storage says of each file, and file objects. Does not know formats
or what any file holds.
"""

import glob
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from fsspec import AbstractFileSystem

from nanotok_ray.errors import SourceError
from nanotok_ray.storage.remote import RemoteInput, connect
from nanotok_ray.storage.transient import transient_errors
from nanotok_ray.storage.urls import is_temporary, local_path

_BUFFER_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """One file and what tells its content from another's without reading it."""

    path: str
    """Absolute path, or URL."""
    size: int
    """In bytes."""
    etag: str | None = None
    """The store's own version of the content, where it has one."""
    mtime_ns: int | None = None
    """Time of the last change in nanoseconds since 1970, where it is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFiles:
    """What one path of a recipe stands for."""

    folder: str
    """Absolute path or URL of the deepest folder that the path names without wildcards."""
    files: tuple[InputFile, ...]
    """Sorted by path."""
    is_folder: bool
    """Whether the path is a folder, and the files are all that lie below it."""


def list_files(paths: Iterable[str]) -> list[InputFile]:
    """Give the files that globs, files and folders stand for, each once, sorted by path.

    Raises:
        SourceError: a path matches nothing.
    """
    files = {file.path: file for path in paths for file in find_files(path).files}
    return [files[path] for path in sorted(files)]


def find_files(path: str) -> FoundFiles:
    """Give the files that one glob, file or folder stands for.

    Hidden files, temporary ones (`.tmp`) and those whose name, or whose folder's, begins with `_`
    are left out, unless they are named: as a file, or by a glob that begins a part so.

    Raises:
        SourceError: the path matches nothing.
        TransientIOError: a remote store failed in a way that may pass.
    """
    local = local_path(path)
    found = _find_remote(path) if local is None else _find_local(local)
    if not found.files:
        raise SourceError(f"{path} matches no file; check the path (hidden files are left out)")
    return found


def open_input(path: str) -> BinaryIO:
    """Open a file or URL for reading; seekable and buffered.

    Raises:
        FileNotFoundError: there is none.
        TransientIOError: a remote store failed in a way that may pass; reads raise it too.
    """
    local = local_path(path)
    if local is None:
        return io.BufferedReader(RemoteInput(path), buffer_size=_BUFFER_BYTES)
    return Path(local).open("rb", buffering=_BUFFER_BYTES)


def _find_local(path: str) -> FoundFiles:
    if Path(path).is_file():
        return _found(str(Path(path).parent), [_local_file(path)])
    if Path(path).is_dir():
        names = _visible(_walk(path), folder=path)
        return _found(path, [_local_file(name) for name in names], is_folder=True)
    folder = _static_folder(path)
    # Hidden names are sorted out below, by the same rule for every kind of path.
    matches = glob.glob(path, recursive=True, include_hidden=True)  # noqa: PTH207 - as a string
    names = _visible(matches, folder=folder, pattern=path)
    return _found(folder, [_local_file(name) for name in names if Path(name).is_file()])


def _walk(folder: str) -> Iterator[str]:
    """Give every file below a folder; symbolic links are followed, except upwards."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        here = Path(parent).resolve()
        folders[:] = [n for n in folders if not here.is_relative_to(Path(parent, n).resolve())]
        yield from (f"{parent.rstrip('/')}/{name}" for name in names)


def _local_file(path: str) -> InputFile:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"the name of the file {path!r} is not UTF-8; rename it") from error
    try:
        status = Path(path).stat()
    except OSError as error:
        raise SourceError(f"cannot look at {path}: {error.strerror}") from error
    return InputFile(path=path, size=status.st_size, mtime_ns=status.st_mtime_ns)


def _find_remote(url: str) -> FoundFiles:
    file_system, path = connect(url)

    def files(details: Iterable[dict[str, Any]]) -> list[InputFile]:
        found = (each for each in details if each["type"] == "file")
        return [_remote_file(file_system.unstrip_protocol(each["name"]), each) for each in found]

    with transient_errors("list", url):
        kind = _remote_details(file_system, path).get("type")
        if kind == "file":
            parent = file_system.unstrip_protocol(file_system._parent(path))  # noqa: SLF001
            return _found(parent, [_remote_file(url, _remote_details(file_system, path))])
        if kind == "directory":
            details = file_system.find(path, detail=True)
            names = _visible(details, folder=path)
            folder = file_system.unstrip_protocol(path)
            return _found(folder, files(details[name] for name in names), is_folder=True)
        folder = _static_folder(path)
        details = file_system.glob(path, detail=True) if glob.has_magic(path) else {}
        names = _visible(details, folder=folder, pattern=path)
        return _found(file_system.unstrip_protocol(folder), files(details[name] for name in names))


def _remote_details(file_system: AbstractFileSystem, path: str) -> dict[str, Any]:
    try:
        return dict(file_system.info(path))
    except FileNotFoundError:
        return {}


def _remote_file(url: str, details: dict[str, Any]) -> InputFile:
    etag = next((details[k] for k in ("ETag", "etag", "md5Hash") if details.get(k)), None)
    changed = ("mtime", "LastModified", "last_modified", "updated", "created")
    moment = next((details[key] for key in changed if details.get(key)), None)
    if details.get("size") is None:
        raise SourceError(f"{url} does not tell its size; copy it to a store that does")
    return InputFile(
        path=url,
        size=int(details["size"]),
        etag=None if etag is None else str(etag).strip('"'),
        mtime_ns=_nanoseconds(moment),
    )


def _nanoseconds(moment: object) -> int | None:
    """Give a time, as any store writes it, in nanoseconds, to the microsecond."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(moment, int | float):
        return round(moment * 1e6) * 1000
    return None


def _found(folder: str, files: Iterable[InputFile], *, is_folder: bool = False) -> FoundFiles:
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return FoundFiles(folder=folder.rstrip("/") or "/", files=ordered, is_folder=is_folder)


def _static_folder(pattern: str) -> str:
    """Give the folder above the first part that has a wildcard.

    >>> _static_folder("/data/web/*/part-*.parquet"), _static_folder("/data/web.parquet")
    ('/data/web', '/data')
    """
    parts = pattern.split("/")[:-1]
    wild = next((number for number, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return "/".join(parts[:wild]) or "/"


def _visible(paths: Iterable[str], *, folder: str, pattern: str = "") -> Sequence[str]:
    """Leave out paths with a hidden or temporary part below the folder."""
    named = {part[:1] for part in pattern.split("/")} & {".", "_"}
    hidden = tuple({".", "_"} - named)
    below = len(folder.rstrip("/")) + 1
    return [
        path
        for path in paths
        if not is_temporary(path)
        and not any(part.startswith(hidden) for part in path[below:].split("/"))
    ]
