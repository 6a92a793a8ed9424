"""Names of files inside a folder.

Takes names; touches no file.
"""

from nanotok_ray.errors import CorruptOutputError


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
