"""Limits that a container or service puts on this process: files of cgroup v2, or of v1.

Gives numbers, None where nothing is limited. Changes nothing.
"""

from collections.abc import Iterator
from pathlib import Path

_UNLIMITED = 1 << 60  # v1 says "no limit" as a number near 2**63


def memory_limit(root: Path = Path("/")) -> int | None:
    """Give the bytes that this process and its neighbours in the cgroup may use."""
    limits = [
        *_numbers(root, "memory", "memory.max"),
        *_numbers(root, "memory", "memory.limit_in_bytes"),
    ]
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def memory_used(root: Path = Path("/")) -> int | None:
    """Give the bytes in use there that cannot be given back: without cached files."""
    for name in ("memory.current", "memory.usage_in_bytes"):
        for folder in _folders(root, "memory"):
            if (used := _number(folder / name)) is not None:
                return max(0, used - _cached(folder))
    return None


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Give how many CPUs' time may be used, as 1.5."""
    limits = []
    for folder in _folders(root, "cpu"):
        quota, period = _quota(folder)
        if quota is not None and period:
            limits.append(quota / period)
    return min(limits, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Give this process' folder and those above it: each of them may have a limit."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        own = mount / controller if controllers else mount
        inside = Path(path.lstrip("/"))
        yield from (own / each for each in (inside, *inside.parents))


def _numbers(root: Path, controller: str, name: str) -> Iterator[int]:
    for folder in _folders(root, controller):
        if (number := _number(folder / name)) is not None:
            yield number


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _quota(folder: Path) -> tuple[int | None, int | None]:
    try:
        quota, _, period = (folder / "cpu.max").read_text().partition(" ")
    except OSError:
        return _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return (int(quota) if quota.isdecimal() else None), int(period or 0)


def _cached(folder: Path) -> int:
    """Give the bytes of cached files that the kernel drops first."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    values = dict(line.split(" ", 1) for line in lines if " " in line)
    return int(values.get("inactive_file", values.get("total_inactive_file", 0)))
