"""Compares the output of a disturbed job with that of an undisturbed one, in local folders."""

import re
from pathlib import Path

from nanotok_ray.storage import is_temporary
from tests.support.small_corpus import contents

TEMPORARY = re.compile(rb"-[0-9]+-[0-9a-f]{12}\.tmp")


def differing(one: Path, other: Path) -> list[str]:
    """Return the names that only one folder has, or that have other bytes.

    Files with times and hosts are skipped, and files of killed writers and drivers.
    """
    left, right = finished(one), finished(other)
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def finished(folder: Path) -> dict[str, str]:
    """Return the sha256 of every finished file, by its name."""
    return {
        name: digest
        for name, digest in contents(folder, leave_out=("run", "probe")).items()
        if not is_temporary(name)
    }


def named_temporaries(folder: Path) -> list[str]:
    """Return the finished files that contain the name of a temporary one."""
    return [name for name in finished(folder) if TEMPORARY.search((folder / name).read_bytes())]
