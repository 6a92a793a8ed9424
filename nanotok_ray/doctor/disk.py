"""Checks of local disks: free bytes and inodes, and whether a job's output fits. Writes nothing."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.doctor.finding import Finding
from nanotok_ray.locations import local_path
from nanotok_ray.plan import Slice
from nanotok_ray.recipe import Recipe
from nanotok_ray.units import format_bytes

LEAST_FREE = 10_000_000_000
LEAST_SHARE = 0.1


def check_disk(folder: str) -> Finding:
    """Check the disk that a local folder lies on, or would lie on."""
    name = "disk"
    try:
        status = os.statvfs(_existing(folder))
    except OSError as error:
        return Finding(
            name=name, status="fail", found=f"{folder}: {error.strerror}", advice="name another one"
        )
    free, total = (blocks * status.f_frsize for blocks in (status.f_bavail, status.f_blocks))
    found = f"{folder}: {free / 1e9:.1f} GB free of {total / 1e9:.1f} GB"
    has_inodes = status.f_files > 0  # some file systems count none
    if has_inodes:
        found += f", {status.f_favail:,} inodes free of {status.f_files:,}"
    if free == 0 or (has_inodes and status.f_favail == 0):
        return Finding(name=name, status="fail", found=found, advice="it is full: free some")
    if free < LEAST_FREE or free < LEAST_SHARE * total:
        advice = "free some: shards take 2 or 4 bytes a token, and work/ holds the counts"
        return Finding(name=name, status="warn", found=found, advice=advice)
    if has_inodes and status.f_favail < LEAST_SHARE * status.f_files:
        advice = "remove small files, or make slices larger (limits.slice_bytes)"
        return Finding(name=name, status="warn", found=found, advice=advice)
    return Finding(name=name, status="ok", found=found)


BYTES_PER_TOKEN = 3.0
"""Bytes of text in a token, for estimates: fewer than in most corpora, so that these are high."""

COUNTS_SHARE = 0.1
"""Bytes of count files for each byte of text that is counted."""

_SHORT_IDS = 2**16


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """What a job is estimated to add to a local disk, and what is free there."""

    folder: str
    needed: int
    """In bytes, as is `free`."""
    free: int

    @property
    def fits(self) -> bool:
        """Whether there is room for it."""
        return self.needed <= self.free

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def text(self) -> str:
        """Return the line for people.

        >>> Space(folder="/data/out", needed=9_000_000, free=2_000_000).text()
        '/data/out: about 9.0 MB needed, only 2.0 MB free; free some space or choose another folder'
        """
        needed, free = format_bytes(self.needed), format_bytes(self.free)
        if self.fits:
            return f"{self.folder}: about {needed} needed, {free} free"
        return (
            f"{self.folder}: about {needed} needed, only {free} free; free some space or choose "
            "another folder"
        )


def space_for(
    recipe: Recipe, *, count: Iterable[Slice] = (), tokenize: Iterable[Slice] = ()
) -> list[Space]:
    """Estimate what counting and tokenizing slices adds to the local disks of a recipe's folders.

    Returns one value for each disk. Remote folders have none.
    """
    own = recipe.tokenizer
    is_wide = own.path is None and own.vocab_size + len(own.extend) > _SHORT_IDS
    shards = 0.0
    for each in tokenize:
        bytes_per_token = (4 if is_wide else 2) + (each.kind != "text")  # a mask has one
        shards += each.num_bytes / BYTES_PER_TOKEN * bytes_per_token
    needed = {
        recipe.output.path: shards * (1 + len(recipe.output.layouts)),
        recipe.output.work: sum(each.num_bytes for each in count) * COUNTS_SHARE,
    }
    disks: dict[int, Space] = {}
    for folder, size in needed.items():
        path = local_path(folder)
        if path is None:
            continue
        place = _existing(path)
        disk = place.stat().st_dev
        known = disks.get(disk)
        disks[disk] = Space(
            folder=known.folder if known else path,
            needed=round(size) + (known.needed if known else 0),
            free=shutil.disk_usage(place).free,
        )
    return list(disks.values())


def _existing(folder: str) -> Path:
    """Return the deepest folder of a path that exists."""
    path = Path(folder)
    return next((each for each in (path, *path.parents) if each.exists()), Path("/"))
