"""What fsspec is told for each kind of store: time limits, and tries inside the store's client.

Takes URLs; gives options by scheme, and the extra of this package that brings a store's own. What
the user set in fsspec's configuration or in AWS' variables comes first. Opens nothing.
"""

import os
import re
from collections.abc import Callable
from typing import Any

import fsspec.config

CONNECT_SECONDS = 10
READ_SECONDS = 20
"""Longest silence of a server, not the longest transfer."""
_REQUEST_TRIES = 4  # by S3's client, waiting up to 1, 2 and 4 s; parts of an upload have no other

_SCHEME = re.compile(r"(?:^|::)([A-Za-z][A-Za-z0-9+.-]*)(?=://|::)")
_EXTRAS = {
    **dict.fromkeys(["s3", "s3a"], "s3"),
    **dict.fromkeys(["gs", "gcs"], "gcs"),
    **dict.fromkeys(["abfs", "abfss", "adl", "az"], "azure"),
    **dict.fromkeys(["http", "https"], "http"),
    "hf": "hf",
}


def store_options(url: str) -> dict[str, dict[str, Any]]:
    """Give the options of every store that a URL names, by its scheme.

    >>> store_options("zip://a.txt::az://b/c.zip")
    {'az': {'connection_timeout': 10, 'read_timeout': 20}}
    """
    schemes = dict.fromkeys(_SCHEME.findall(url))
    return {name: _OPTIONS[_EXTRAS[name]]() for name in schemes if _EXTRAS.get(name) in _OPTIONS}


def extra_for(url: str) -> str | None:
    """Give the extra of this package that a URL needs, None if there is none for it.

    >>> extra_for("gs://bucket/web"), extra_for("sftp://host/web")
    ('gcs', None)
    """
    return next((_EXTRAS[name] for name in _SCHEME.findall(url) if name in _EXTRAS), None)


def _s3_options() -> dict[str, Any]:
    config: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    if not {"AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE"} & os.environ.keys():
        config["retries"] = {"mode": "standard", "total_max_attempts": _REQUEST_TRIES}
    return {"config_kwargs": config | _configured("s3", "s3a").get("config_kwargs", {})}


def _gcs_options() -> dict[str, Any]:
    return {"requests_timeout": _aiohttp_limits()} | _configured("gs", "gcs")


def _azure_options() -> dict[str, Any]:
    options = {"connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
    return options | _configured("abfs", "az", "abfss", "adl")


def _http_options() -> dict[str, Any]:
    given = _configured("http", "https").get("client_kwargs", {})
    return {"client_kwargs": {"timeout": _aiohttp_limits()} | given}


_OPTIONS: dict[str | None, Callable[[], dict[str, Any]]] = {
    "s3": _s3_options,
    "gcs": _gcs_options,
    "azure": _azure_options,
    "http": _http_options,
}


def _configured(*schemes: str) -> dict[str, Any]:
    """Give what the user set for a store in fsspec's configuration or its variables."""
    return {
        key: value
        for scheme in schemes
        for key, value in fsspec.config.conf.get(scheme, {}).items()
    }


def _aiohttp_limits() -> object:
    """Give limits for connecting and for silence, and none for a whole transfer."""
    from aiohttp import ClientTimeout  # noqa: PLC0415 - only these stores bring it

    return ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
