"""Checks of this machine: CPUs, memory, open files, shared memory. Writes nothing."""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

from nanotok_ray.doctor.cgroup import cpu_limit, memory_limit, memory_used
from nanotok_ray.doctor.finding import Finding
from nanotok_ray.errors import TokenizerError

LEAST_MEMORY = 2_000_000_000
LEAST_OPEN_FILES = 65_536
LEAST_SHARED_MEMORY = 1_000_000_000
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - looked at, not written to


def check_machine() -> Iterator[Finding]:
    """Check what a job takes from this machine."""
    yield check_cpus()
    yield check_cpu_level()
    yield check_memory()
    yield check_open_files()
    yield check_shared_memory()


def check_cpus(root: Path = Path("/")) -> Finding:
    """Check how many CPUs may be used: a limit that Ray does not see slows every task."""
    name, usable, limit = "CPUs", len(os.sched_getaffinity(0)), cpu_limit(root)
    found = f"{usable} usable of {os.cpu_count()}"
    if limit is not None and limit < usable:
        return Finding(
            name=name,
            status="warn",
            found=f"{found}, and the container's limit is the time of {limit:g}",
            advice=f"give --workers {max(1, int(limit))}, or raise the limit",
        )
    return Finding(name=name, status="ok", found=found)


def check_cpu_level() -> Finding:
    """Check which instructions the core uses, of those that it could."""
    name, forced = "CPU features", os.environ.get("NANOTOK_CPU")
    try:
        from nanotok_ray._core import cpu_level, cpu_levels  # noqa: PLC0415 - it may be missing

        level, levels = cpu_level(), cpu_levels()
    except ImportError:
        return Finding(name=name, status="fail", found="unknown: there is no core (see above)")
    except TokenizerError as error:
        return Finding(name=name, status="fail", found=str(error), advice="unset NANOTOK_CPU")
    found = f"{level} of {', '.join(levels)}" + (", by NANOTOK_CPU" if forced else "")
    if level != levels[-1]:
        advice = f"unset NANOTOK_CPU, and {levels[-1]} is used: same results, sooner"
        return Finding(name=name, status="warn", found=found, advice=advice)
    return Finding(name=name, status="ok", found=found)


def check_memory(root: Path = Path("/")) -> Finding:
    """Check the memory that is available, within the container's limit."""
    name = "memory"
    values = dict(re.findall(r"(\w+):\s+(\d+) kB", (root / "proc/meminfo").read_text()))
    total, available = (int(values[key]) * 1024 for key in ("MemTotal", "MemAvailable"))
    limit = memory_limit(root)
    if limit is not None and limit < total:
        total, available = limit, min(available, limit - (memory_used(root) or 0))
    found = f"{available / 1e9:.1f} GB available of {total / 1e9:.1f} GB"
    if limit is not None and limit == total:
        found += ", the container's limit"
    if available < LEAST_MEMORY:
        advice = f"free some: a job wants {LEAST_MEMORY / 1e9:.0f} GB and more, by its vocabulary"
        return Finding(name=name, status="warn", found=found, advice=advice)
    return Finding(name=name, status="ok", found=found)


def check_open_files() -> Finding:
    """Check how many files a process may hold open: Ray's head holds several for each worker."""
    name = "open files"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = f"may be raised to {_told(hard)}" if hard != soft else "may not be raised"
    found = f"at most {_told(soft)} (ulimit -n), {raised}"
    if soft != resource.RLIM_INFINITY and soft < LEAST_OPEN_FILES:
        advice = f"ulimit -n {LEAST_OPEN_FILES} before Ray starts, on clusters of many workers"
        return Finding(name=name, status="warn", found=found, advice=advice)
    return Finding(name=name, status="ok", found=found)


def _told(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def check_shared_memory() -> Finding:
    """Check the size of shared memory, where Ray keeps its objects."""
    name = "shared memory"
    advice = "start the container with --shm-size=2g, or Ray keeps its objects on disk"
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError as error:
        found = f"{SHARED_MEMORY}: {error.strerror}"
        return Finding(name=name, status="warn", found=found, advice=advice)
    size, free = (blocks * status.f_frsize for blocks in (status.f_blocks, status.f_bavail))
    found = f"{free / 1e9:.1f} GB free of {size / 1e9:.1f} GB in {SHARED_MEMORY}"
    if free < LEAST_SHARED_MEMORY:
        return Finding(name=name, status="warn", found=found, advice=advice)
    return Finding(name=name, status="ok", found=found)
