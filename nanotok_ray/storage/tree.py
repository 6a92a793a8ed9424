"""Lists local folders, walks folders, matches globs, and checks names of files in a folder."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.storage.retries import attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file or a folder of a listing."""

    path: str
    is_folder: bool
    size: int | None = None
    """Size of a file in bytes, if the listing reports it."""
    etag: str | None = None
    mtime_ns: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


Lister = Callable[[str], Iterable[Entry]]
"""Lists a folder; yields nothing if the folder does not exist, and raises if it cannot be listed.
"""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Names that a listing skips, and the files that it has skipped for their own name alone."""

    prefixes: tuple[str, ...]
    skipped: list[Entry] = field(default_factory=list)

    def skips(self, entry: Entry, *, is_file: bool) -> bool:
        """Return whether an entry is skipped; record one that is a file to list."""
        if not entry.name.startswith(self.prefixes):
            return False
        if is_file and not entry.is_folder:
            self.skipped.append(entry)
        return True


_NONE: Final = Hidden(())


def walk(list_folder: Lister, folder: str, *, hidden: Hidden = _NONE) -> Iterator[Entry]:
    """Yield every file below a folder, skipping names that are hidden."""
    for entry in list_folder(folder):
        if hidden.skips(entry, is_file=True):
            continue
        if entry.is_folder:
            yield from walk(list_folder, entry.path, hidden=hidden)
        else:
            yield entry


def match(
    list_folder: Lister, folder: str, parts: Sequence[str], *, hidden: Hidden = _NONE
) -> Iterator[Entry]:
    """Yield the files below a folder that match a glob, given as a sequence of its parts.

    `*`, `?` and `[...]` match within a part; a part `**` matches any number of folders, including
    none. A glob with several `**` can yield a file more than once.
    """
    part, *rest = parts
    if part == "**":
        if not rest:
            yield from walk(list_folder, folder, hidden=hidden)
            return
        yield from match(list_folder, folder, rest, hidden=hidden)
        rest = list(parts)
    for entry in list_folder(folder):
        is_match = part == "**" or fnmatchcase(entry.name, part)
        if not is_match or hidden.skips(entry, is_file=not rest):
            continue
        if entry.is_folder and rest:
            yield from match(list_folder, entry.path, rest, hidden=hidden)
        elif not entry.is_folder and not rest:
            yield entry


def static_parts(pattern: str) -> tuple[str, list[str]]:
    """Return the folder above the first part with a wildcard, and the remaining parts.

    >>> static_parts("/data/web/*/part-*.parquet")
    ('/data/web', ['*', 'part-*.parquet'])
    >>> static_parts("/data/web.parquet")
    ('/data', ['web.parquet'])
    """
    parts = pattern.split("/")
    wild = (number for number, part in enumerate(parts) if glob.has_magic(part))
    first = next(wild, len(parts) - 1)
    return "/".join(parts[:first]) or "/", parts[first:]


@dataclass(kw_only=True, slots=True)
class Boundary:
    """Folders that a listing must not reach, whether or not they exist."""

    tree: "Tree"
    folders: Mapping[str, str]
    """The name of the setting of each folder by its canonical name."""
    reached: list[tuple[str, str]] = field(default_factory=list)
    """Paths that the listing reached, with the setting of the folder that each is, or is in."""

    def around(self, list_folder: Lister) -> Lister:
        """Return a lister that does not enter the folders, and records where it would have.

        A folder that does not exist yet is listed in its parent, so that a walk or a glob reaches
        it exactly if it would reach the existing folder.
        """

        def list_inside(folder: str) -> Iterator[Entry]:
            real = self.tree.canonical(folder)
            if self._holds(folder, real):
                return
            missing = {name for root in self.folders if (name := _next_part(real, root))}
            for entry in list_folder(folder):
                missing.discard(entry.name)
                if not entry.is_folder and self.tree.is_link(entry.path):
                    self.check(entry.path)
                yield entry
            for name in sorted(missing):
                yield Entry(path=f"{folder.rstrip('/')}/{name}", is_folder=True)

        return list_inside

    def check(self, path: str) -> None:
        """Record a path that is one of the folders or inside one."""
        self._holds(path, self.tree.canonical(path))

    def _holds(self, path: str, real: str) -> bool:
        folder = next((root for root in self.folders if is_below(real, root)), None)
        if folder is not None:
            self.reached.append((path, self.folders[folder]))
        return folder is not None


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is the folder or inside it.

    >>> is_below("/data/out/a", "/data/out"), is_below("/data/out-2", "/data/out")
    (True, False)
    """
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _next_part(path: str, folder: str) -> str:
    """Return the part after a path in the path of a folder below it, or "" if it is not below.

    >>> _next_part("/data", "/data/out/work"), _next_part("/data", "/other")
    ('out', '')
    """
    if path == folder or not is_below(folder, path):
        return ""
    return folder[len(path.rstrip("/")) + 1 :].partition("/")[0]


class Tree(Protocol):
    """The folders of a disk or of one store."""

    def look_at(self, path: str, /) -> Entry | None:
        """Return the entry of a file or folder, or None if it does not exist."""

    def list_folder(self, folder: str, /) -> Iterator[Entry]:
        """Yield the entries of a folder; nothing if the folder does not exist."""

    def url(self, path: str, /) -> str:
        """Return the name of a path for users."""

    def canonical(self, path: str, /) -> str:
        """Return the absolute name of a path, with links resolved."""

    def is_link(self, path: str, /) -> bool:
        """Return whether a path is a symbolic link."""


class LocalTree:
    """The folders of this machine."""

    def look_at(self, path: str) -> Entry | None:
        """Return the entry of a file or folder, or None if neither exists.

        Raises:
            SourceError: The name is not UTF-8.
        """
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"the file name {path!r} is not UTF-8; rename the file") from error
        return attempt("read", path, lambda: _entry(path))

    def list_folder(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder; nothing if the folder does not exist.

        Raises:
            SourceError: A link is broken, or a name is not UTF-8.
            PermissionError: The folder cannot be read.
        """
        names: list[str] = []
        with suppress(FileNotFoundError, NotADirectoryError):
            names = attempt("list", folder, lambda: os.listdir(folder))  # noqa: PTH208 - names
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            entry = self.look_at(path)
            if entry is None:
                if self.is_link(path):
                    raise SourceError(f"{path} is a broken link; fix or remove it")
                continue
            if entry.is_folder and Path(folder).resolve().is_relative_to(Path(path).resolve()):
                continue
            yield entry

    def url(self, path: str) -> str:
        """Return the path."""
        return path

    def canonical(self, path: str) -> str:
        """Return the absolute path with links resolved."""
        return os.path.realpath(path)

    def is_link(self, path: str) -> bool:
        """Return whether a path is a symbolic link."""
        return Path(path).is_symlink()


def _entry(path: str) -> Entry | None:
    if Path(path).is_dir():
        return Entry(path=path, is_folder=True)
    if not Path(path).is_file():
        return None
    status = Path(path).stat()
    return Entry(path=path, is_folder=False, size=status.st_size, mtime_ns=status.st_mtime_ns)


def check_name(name: str) -> str:
    """Return the name if it stays inside its folder.

    Raises:
        CorruptOutputError: The name is empty, absolute, or refers to a parent folder.
    """
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise CorruptOutputError(f"{name!r} is not the name of a file inside a folder")
    return name


def is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file, of this software or another.

    >>> is_temporary("web/.a.bin.host-12-3f.tmp"), is_temporary("web/a.bin")
    (True, False)
    """
    return name.endswith(".tmp")
