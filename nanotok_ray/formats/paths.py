"""Local paths, and names of files that stay inside an output folder."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

from nanotok_ray.errors import CorruptOutputError


def is_inner_name(name: str) -> bool:
    """Return whether a name refers to a file inside a folder.

    >>> is_inner_name("web/train/a.bin"), is_inner_name("../a"), is_inner_name("/a")
    (True, False, False)
    """
    return "\0" not in name and not any(part in {"", ".", ".."} for part in name.split("/"))


def path_inside(root: Path, name: str) -> Path:
    """Return the path of a name in a folder; the file need not exist.

    Raises:
        CorruptOutputError: The name, or a link in the path, leads out of the folder.
    """
    if not is_inner_name(name):
        raise CorruptOutputError(f"{name!r} is not the name of a file inside {root}")
    path = root / name
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:  # circular links
        raise CorruptOutputError(f"{path} cannot be followed: {error}") from error
    if not real.is_relative_to(root.resolve()):
        raise CorruptOutputError(f"{path} is a link out of {root}: it leads to {real}")
    return path


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")


def local_path(url: str) -> str | None:
    """Return the absolute local path of a path or a file URL, or None for a remote store.

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
    """Return whether a path or URL is on a local disk (or a mounted one)."""
    return local_path(url) is not None
