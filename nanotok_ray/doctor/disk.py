"""Checks of local disks: free bytes and inodes, and whether a job's output fits. Writes nothing."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.doctor.finding import Finding, Status
from nanotok_ray.formats.paths import local_path
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


def space_for(recipe: Recipe, *, counted: int, tokenized: Mapping[str, int]) -> list[Space]:
    """Estimate what a job adds to the local disks of its folders.

    Args:
        recipe: The recipe.
        counted: Bytes of text that are counted.
        tokenized: Bytes of text that are tokenized, by the kind of their sources.

    Returns:
        One value for each disk. Remote folders have none.
    """
    own = recipe.tokenizer
    is_wide = own.path is None and own.vocab_size + len(own.extend) > _SHORT_IDS
    tokens = {kind: size / BYTES_PER_TOKEN for kind, size in tokenized.items()}
    shards = sum(tokens.values()) * (4 if is_wide else 2)
    masks = sum(number for kind, number in tokens.items() if kind != "text")
    needed = {
        recipe.output.path: (shards + masks) * (1 + len(recipe.output.layouts)),
        recipe.output.work: counted * COUNTS_SHARE,
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


def check_space(recipe: Recipe, sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Compare what a job writes with what is free, from the bytes of text in each source."""
    tokenized: Counter[str] = Counter()
    for source in recipe.sources:
        tokenized[source.kind] += sizes.get(source.name, 0)
    is_learned = recipe.tokenizer.path is None
    counted = sum(sizes.get(each.name, 0) for each in recipe.sources if each.count and is_learned)
    for space in space_for(recipe, counted=counted, tokenized=tokenized):
        status: Status = "ok" if space.fits else "warn"
        yield Finding(name="space", status=status, found=space.text())


def _existing(folder: str) -> Path:
    """Return the deepest folder of a path that exists."""
    path = Path(folder)
    return next((each for each in (path, *path.parents) if each.exists()), Path("/"))
