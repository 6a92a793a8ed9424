"""What the operating system tells: usable CPUs, open files, disks, a clock, users.

Linux tells all of it. Elsewhere a function returns what the system has in its place, or None.
"""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskSpace:
    """The size of the disk of a folder, in bytes and in inodes."""

    free: int
    total: int
    free_inodes: int
    inodes: int
    """0 if the file system does not count them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileLimits:
    """How many files a process can open; None for any number."""

    now: int | None
    raised: int | None
    """The limit that the process can set for itself."""


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use; all of them outside of Linux."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def file_limits() -> FileLimits | None:
    """Return the limits of open files, or None on Windows."""
    try:
        import resource  # noqa: PLC0415 - Windows has no such module
    except ImportError:
        return None
    now, raised = (
        None if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return FileLimits(now=now, raised=raised)


def disk_space(folder: str | Path) -> DiskSpace:
    """Return the space of the disk of an existing folder.

    Raises:
        OSError: The folder does not exist or cannot be asked for.
    """
    if not hasattr(os, "statvfs"):  # Windows
        usage = shutil.disk_usage(folder)
        return DiskSpace(free=usage.free, total=usage.total, free_inodes=0, inodes=0)
    status = os.statvfs(folder)
    return DiskSpace(
        free=status.f_bavail * status.f_frsize,
        total=status.f_blocks * status.f_frsize,
        free_inodes=status.f_favail,
        inodes=status.f_files,
    )


def boot_seconds() -> float:
    """Return seconds of a clock that counts the time in which the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if hasattr(time, "clock_gettime"):  # macOS, whose monotonic clock counts it, unlike Python's
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


def user_id() -> int:
    """Return the number of the user, or 0 on Windows, where every file has the owner 0."""
    return os.getuid() if hasattr(os, "getuid") else 0


def has_processes() -> bool:
    """Return whether /proc lists the processes, as Linux alone does."""
    return Path("/proc/self").exists()
