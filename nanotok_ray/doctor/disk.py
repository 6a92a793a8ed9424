"""The check of a local disk: free bytes and free inodes. Writes nothing."""

import os
from pathlib import Path

from nanotok_ray.doctor.finding import Finding

LEAST_FREE = 10_000_000_000
LEAST_SHARE = 0.1


def check_disk(folder: str) -> Finding:
    """Check the disk that a local folder lies on, or would lie on."""
    name = "disk"
    place = Path(folder)
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        status = os.statvfs(place)
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
