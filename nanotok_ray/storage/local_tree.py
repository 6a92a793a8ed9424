"""Listing local folders.

Takes paths; gives entries with size and time. Follows symbolic links, except upwards. Does not know
which files are wanted.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nanotok_ray.errors import SourceError
from nanotok_ray.storage.tree import Entry


def list_local(folder: str) -> Iterator[Entry]:
    """Give what is in a folder, nothing if there is no such folder.

    Raises:
        SourceError: a link in it leads nowhere, or a name is not UTF-8.
        PermissionError: it may not be read.
    """
    names: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)  # noqa: PTH208 - names, not paths
    for name in names:
        path = f"{folder.rstrip('/')}/{name}"
        entry = look_at_local(path)
        if entry is None:
            if Path(path).is_symlink():
                raise SourceError(f"{path} is a link that leads nowhere; mend or remove it")
            continue
        if entry.is_folder and Path(folder).resolve().is_relative_to(Path(path).resolve()):
            continue
        yield entry


def look_at_local(path: str) -> Entry | None:
    """Give the entry of a file or folder, None if it is neither or not there.

    Raises:
        SourceError: its name is not UTF-8.
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise SourceError(f"the file name {path!r} is not UTF-8; rename the file") from error
    if Path(path).is_dir():
        return Entry(path=path, is_folder=True)
    if not Path(path).is_file():
        return None
    status = Path(path).stat()
    return Entry(path=path, is_folder=False, size=status.st_size, mtime_ns=status.st_mtime_ns)
