"""Which paths and URLs are on a local disk.

Takes a path or URL as a person writes it; touches no file. Needs the standard library alone.
"""

import os
import re
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")


def local_path(url: str) -> str | None:
    """Give the absolute local path of a path or a file URL; None for a remote store.

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
    """Tell whether a path or URL is on a local disk (or a mounted one)."""
    return local_path(url) is not None
