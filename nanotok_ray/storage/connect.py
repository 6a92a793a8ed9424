"""Connections to remote stores through fsspec: options, time limits, listing of folders."""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from nanotok_ray.errors import SourceError, how_to_install
from nanotok_ray.storage.retries import attempt
from nanotok_ray.storage.tree import Entry
from nanotok_ray.units import parse_time

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

CONNECT_SECONDS = 10
READ_SECONDS = 20
"""The longest time without data from a server; a transfer can take longer."""
MAX_CONNECTIONS = 64
"""Connections of a process to a store, and threads that can read small files concurrently."""
_REQUEST_TRIES = 4  # by S3's client, waiting up to 1, 2, 4 s; the only retries of upload parts

Details = dict[str, Any]
"""Values by name that a package of a store takes or returns: settings, details of a file."""

_SCHEME = re.compile(r"(?:^|::)([A-Za-z][A-Za-z0-9+.-]*)(?=://|::)")
_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["abfs", "abfss", "adl", "az"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
    "hf": "hf",
}


def store_options(url: str) -> dict[str, Details]:
    """Return the options of every store that a URL names, by scheme.

    >>> store_options("zip://a.txt::az://b/c.zip")
    {'az': {'connection_timeout': 10, 'read_timeout': 20}}
    """
    schemes = dict.fromkeys(_SCHEME.findall(url))
    return {name: _OPTIONS[_EXTRAS[name]]() for name in schemes if _EXTRAS.get(name) in _OPTIONS}


def extra_for(url: str) -> str | None:
    """Return the extra of this package that a URL requires, or None if no extra covers it.

    >>> extra_for("gs://bucket/web"), extra_for("sftp://host/web")
    ('gcs', None)
    """
    return next((_EXTRAS[name] for name in _SCHEME.findall(url) if name in _EXTRAS), None)


def _s3_options() -> Details:
    config: Details = {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "max_pool_connections": MAX_CONNECTIONS,
    }
    if not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & os.environ.keys():
        config["retries"] = {"mode": "standard", "total_max_attempts": _REQUEST_TRIES}
    return {"config_kwargs": config | _configured("s3", "s3a").get("config_kwargs", {})}


def _gcs_options() -> Details:
    return {"requests_timeout": _aiohttp_limits()} | _configured("gs", "gcs")


def _azure_options() -> Details:
    options = {"connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    return options | _configured("abfs", "az", "abfss", "adl")


def _http_options() -> Details:
    given = _configured("http", "https").get("client_kwargs", {})
    return {"client_kwargs": {"timeout": _aiohttp_limits()} | given}


_OPTIONS: dict[str | None, Callable[[], Details]] = {
    "s3": _s3_options,
    "gcs": _gcs_options,
    "azure": _azure_options,
    "http": _http_options,
}


def _configured(*schemes: str) -> Details:
    """Return the user's settings of a store in fsspec's configuration or environment variables."""
    from fsspec.config import conf  # noqa: PLC0415 - remote stores alone need it

    return {key: value for scheme in schemes for key, value in conf.get(scheme, {}).items()}


def _aiohttp_limits() -> object:
    """Return limits for connecting and for the time without data, but none for a whole transfer."""
    from aiohttp import ClientTimeout  # noqa: PLC0415 - only these stores bring it

    return ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ETAG_KEYS = ("ETag", "etag", "md5Hash")
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")
VERSION_KEYS = {*_ETAG_KEYS, *_TIME_KEYS}
"""Keys of a store's details of a file that identify its content."""


def connect(url: str) -> "tuple[AbstractFileSystem, str]":
    """Return the file system of a URL and the path in it; listings are never cached.

    Raises:
        SourceError: The URL's scheme is unknown, or its package is not installed.
        TransientIOError: The store failed in a way that a retry can solve; the methods below raise
            it too.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - remote stores alone need it

        options = store_options(url) | {"use_listings_cache": False}
        file_system, path = attempt("connect to", url, lambda: url_to_fs(url, **options))
    except ImportError as error:
        extra = extra_for(url)
        hint = f"; {how_to_install(extra)}" if extra else ""
        raise SourceError(f"cannot open {url}: {error}{hint}") from error
    except ValueError as error:
        from fsspec import available_protocols  # noqa: PLC0415 - as above

        extra = extra_for(url)
        if extra and not set(_SCHEME.findall(url)) <= set(available_protocols()):
            hint = how_to_install(extra)  # adlfs itself registers `abfss` and `adl` with fsspec
        else:
            hint = (
                "use a path, or a URL like s3://, gs://, az://, https://, hf:// (docs/storage.md)"
            )
        raise SourceError(f"cannot open {url}: {error}; {hint}") from error
    if "s3" in file_system.protocol:
        file_system.retries = (
            1  # otherwise s3fs would repeat all tries of its client, up to 25 times
        )
    return file_system, path


class RemoteTree:
    """The folders of one store."""

    def __init__(self, file_system: "AbstractFileSystem") -> None:
        self._file_system = file_system

    def url(self, path: str) -> str:
        """Return the URL of a path in the store."""
        return str(self._file_system.unstrip_protocol(path))

    def look_at(self, path: str) -> Entry | None:
        """Return the entry of a file or folder, or None if it does not exist."""
        try:
            details = attempt("access", self.url(path), lambda: self._file_system.info(path))
        except FileNotFoundError:
            return None
        return self.entry(details)

    def list_folder(self, folder: str) -> Iterator[Entry]:
        """Yield the entries of a folder; nothing if the folder does not exist."""
        try:
            listing = attempt(
                "list", self.url(folder), lambda: self._file_system.ls(folder, detail=True)
            )
        except (FileNotFoundError, NotADirectoryError):
            return
        for details in listing:
            entry = self.entry(details)
            # Some stores list the placeholder of a folder, or the requested file itself.
            if entry.path == folder.rstrip("/"):
                continue
            if entry.is_folder or entry.size is not None:
                yield entry
            elif (complete := self.look_at(entry.path)) is not None:
                yield complete

    def canonical(self, path: str) -> str:
        """Return the URL of a path without a trailing slash."""
        return self.url(path).rstrip("/")

    def is_link(self, path: str) -> bool:
        """Return False: stores have no links."""
        del path
        return False

    @staticmethod
    def entry(details: Details) -> Entry:
        """Return the entry of a file or folder from a store's details."""
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
    """Return a time in any format of a store as nanoseconds, with a resolution of 1 µs.

    >>> _nanoseconds("1970-01-01T00:00:01Z"), _nanoseconds(1.0), _nanoseconds(None)
    (1000000000, 1000000000, None)
    """
    if isinstance(moment, str):
        try:
            moment = parse_time(moment)
        except ValueError:
            return None
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
    if isinstance(moment, int | float):
        return round(moment * 1e6) * 1000
    return None
