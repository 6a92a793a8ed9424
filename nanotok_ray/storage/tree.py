"""Walking folders and matching globs, on anything that can list a folder.

Takes a function that lists one folder; gives the files below it, or those a glob matches. Failures
to list are never skipped over: a folder left out unseen would be data lost. Does not know disks,
stores, or which files are wanted.
"""

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file or a folder, as a listing shows it."""

    path: str
    is_folder: bool
    size: int | None = None
    """Bytes of a file, where the listing tells."""
    etag: str | None = None
    mtime_ns: int | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


Lister = Callable[[str], Iterable[Entry]]
"""Gives what is in a folder, nothing if there is no such folder; raises if it cannot tell."""


def walk(list_folder: Lister, folder: str, *, hidden: tuple[str, ...] = ()) -> Iterator[Entry]:
    """Give every file below a folder, leaving out names that begin with a `hidden` one."""
    for entry in list_folder(folder):
        if entry.name.startswith(hidden):
            continue
        if entry.is_folder:
            yield from walk(list_folder, entry.path, hidden=hidden)
        else:
            yield entry


def match(
    list_folder: Lister, folder: str, parts: Sequence[str], *, hidden: tuple[str, ...] = ()
) -> Iterator[Entry]:
    """Give the files below a folder that match a glob, whose parts are given one by one.

    `*`, `?` and `[...]` stay within a part; a part `**` is any number of folders, none included.
    A file can come more than once where `**` stands twice.
    """
    part, *rest = parts
    if part == "**":
        if not rest:
            yield from walk(list_folder, folder, hidden=hidden)
            return
        yield from match(list_folder, folder, rest, hidden=hidden)
        rest = list(parts)
    for entry in list_folder(folder):
        if entry.name.startswith(hidden) or not (part == "**" or fnmatchcase(entry.name, part)):
            continue
        if entry.is_folder and rest:
            yield from match(list_folder, entry.path, rest, hidden=hidden)
        elif not entry.is_folder and not rest:
            yield entry


def static_parts(pattern: str) -> tuple[str, list[str]]:
    """Give the folder above the first part with a wildcard, and the parts from there on.

    >>> static_parts("/data/web/*/part-*.parquet")
    ('/data/web', ['*', 'part-*.parquet'])
    >>> static_parts("/data/web.parquet")
    ('/data', ['web.parquet'])
    """
    parts = pattern.split("/")
    wild = (number for number, part in enumerate(parts) if glob.has_magic(part))
    first = next(wild, len(parts) - 1)
    return "/".join(parts[:first]) or "/", parts[first:]
