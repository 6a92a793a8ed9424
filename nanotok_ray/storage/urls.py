"""Which paths are local, and names inside a folder.

Takes paths, URLs and names; touches no file.
"""

import os
import re
from urllib.parse import unquote

from nanotok_ray.errors import CorruptOutputError

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


def check_name(name: str) -> str:
    """Give back a name that stays inside its folder.

    Raises:
        CorruptOutputError: it is absolute, empty, or climbs out.
    """
    if any(part in {"", ".", ".."} for part in name.split("/")):
        raise CorruptOutputError(f"{name!r} is not the name of a file inside a folder")
    return name


def is_temporary(name: str) -> bool:
    """Tell whether a name is that of a file being written, by this software or another.

    >>> is_temporary("web/.a.bin.host-12-3f.tmp"), is_temporary("web/a.bin")
    (True, False)
    """
    return name.endswith(".tmp")
