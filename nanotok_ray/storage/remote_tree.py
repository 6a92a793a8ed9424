"""Connecting to remote stores and listing their folders, by way of fsspec.

Takes URLs and paths in a store; gives entries. fsspec's own `find`, `walk` and `glob` are not used:
they leave out what they fail to list. Does not know which files are wanted.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

from nanotok_ray.errors import SourceError, how_to_install
from nanotok_ray.storage.retries import attempt
from nanotok_ray.storage.store_options import extra_for, store_options
from nanotok_ray.storage.tree import Entry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ETAG_KEYS = ("ETag", "etag", "md5Hash")
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")
VERSION_KEYS = {*_ETAG_KEYS, *_TIME_KEYS}
"""Of a store's details of a file, those that tell one content from another."""


def connect(url: str) -> tuple[AbstractFileSystem, str]:
    """Give the file system of a URL and the path in it; listings are not cached, they go stale.

    Raises:
        SourceError: the URL's scheme is unknown, or its package is not installed.
        TransientIOError: the store failed in a way that may pass (so do all methods below).
    """
    try:
        options = store_options(url) | {"use_listings_cache": False}
        file_system, path = attempt("connect to", url, lambda: url_to_fs(url, **options))
    except ImportError as error:
        extra = extra_for(url)
        hint = f"; {how_to_install(extra)}" if extra else ""
        raise SourceError(f"cannot open {url}: {error}{hint}") from error
    except ValueError as error:
        raise SourceError(
            f"cannot open {url}: {error}; use a path, or a URL as s3://, gs://, az://, https:// or "
            "hf:// (docs/storage.md)"
        ) from error
    if "s3" in file_system.protocol:
        file_system.retries = 1  # else s3fs repeats all that its client has tried, up to 25 times
    return file_system, path


class RemoteTree:
    """The folders of one store."""

    def __init__(self, file_system: AbstractFileSystem) -> None:
        self._file_system = file_system

    def url(self, path: str) -> str:
        """Give the URL of a path in the store."""
        return str(self._file_system.unstrip_protocol(path))

    def look_at(self, path: str) -> Entry | None:
        """Give the entry of a file or folder, None if there is neither."""
        try:
            details = attempt("look at", self.url(path), lambda: self._file_system.info(path))
        except FileNotFoundError:
            return None
        return self.entry(details)

    def list_folder(self, folder: str) -> Iterator[Entry]:
        """Give what is in a folder, nothing if there is no such folder."""
        try:
            listing = attempt(
                "list", self.url(folder), lambda: self._file_system.ls(folder, detail=True)
            )
        except (FileNotFoundError, NotADirectoryError):
            return
        for details in listing:
            entry = self.entry(details)
            # Some stores list a folder's own placeholder, or the file that was asked for.
            if entry.path == folder.rstrip("/"):
                continue
            if entry.is_folder or entry.size is not None:
                yield entry
            elif (complete := self.look_at(entry.path)) is not None:
                yield complete

    @staticmethod
    def entry(details: dict[str, Any]) -> Entry:
        """Give what a store's own details of a file or folder say."""
        etag = next((details[key] for key in _ETAG_KEYS if details.get(key)), None)
        moment = next((details[key] for key in _TIME_KEYS if details.get(key)), None)
        size = details.get("size")
        return Entry(
            path=details["name"].rstrip("/"),
            is_folder=details["type"] == "directory",
            size=None if size is None else int(size),
            etag=None if etag is None else str(etag).strip('"'),
            mtime_ns=_nanoseconds(moment),
        )


def _nanoseconds(moment: object) -> int | None:
    """Give a time, as any store writes it, in nanoseconds, to the microsecond.

    >>> _nanoseconds("1970-01-01T00:00:01Z"), _nanoseconds(1.0), _nanoseconds(None)
    (1000000000, 1000000000, None)
    """
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
