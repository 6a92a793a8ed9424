"""Names of files in an output folder that stay inside it, whoever wrote them.

Takes a local folder and a name in it; gives the path. Needs the standard library alone.
"""

from pathlib import Path

from nanotok_ray.errors import CorruptOutputError


def is_inner_name(name: str) -> bool:
    """Tell whether a name is that of a file inside a folder.

    >>> is_inner_name("web/train/a.bin"), is_inner_name("../a"), is_inner_name("/a")
    (True, False, False)
    """
    return "\0" not in name and not any(part in {"", ".", ".."} for part in name.split("/"))


def path_inside(root: Path, name: str) -> Path:
    """Give the path of a name in a folder; it need not be there.

    Raises:
        CorruptOutputError: the name climbs out of the folder, or a link on the way leads out.
    """
    if not is_inner_name(name):
        raise CorruptOutputError(f"{name!r} is not the name of a file inside {root}")
    path = root / name
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:  # links in a circle
        raise CorruptOutputError(f"{path} cannot be followed: {error}") from error
    if not real.is_relative_to(root.resolve()):
        raise CorruptOutputError(f"{path} is a link out of {root}: it leads to {real}")
    return path
