"""Checks of this machine: CPUs, memory, open files, disks, limits of its container."""

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import local_path
from nanotok_ray.job.doctor.result import CheckResult, Status, failure, passed, warning
from nanotok_ray.recipe import Recipe
from nanotok_ray.system import disk_space, file_limits, usable_cpus
from nanotok_ray.units import format_bytes

_UNLIMITED = 1 << 60  # v1 uses a number near 2**63 for "no limit"


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the memory limit in bytes of this process's cgroup."""
    limits = [
        int(word)
        for folder in _folders(root, "memory")
        for word in _words(folder, "memory.max", "memory.limit_in_bytes")
        if word.isdecimal()
    ]
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def memory_used(root: Path = Path("/")) -> int | None:
    """Return the bytes in use in the cgroup that cannot be freed: without cached files."""
    for folder in _folders(root, "memory"):
        for used in _words(folder, "memory.current", "memory.usage_in_bytes"):
            return max(0, int(used) - _cached(folder))
    return None


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Return the limit of CPU time in CPUs, such as 1.5."""
    limits = []
    for folder in _folders(root, "cpu"):
        old = [*_words(folder, "cpu.cfs_quota_us"), *_words(folder, "cpu.cfs_period_us")]
        numbers = [int(word) for word in _words(folder, "cpu.max") or old if word.isdecimal()]
        if len(numbers) > 1 and numbers[1]:
            limits.append(numbers[0] / numbers[1])
    return min(limits, default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield this process's folder and its parents, each of which can have a limit."""
    mount = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        hierarchy = mount / controller if controllers else mount
        inside = Path(path.lstrip("/"))
        yield from (hierarchy / folder for folder in (inside, *inside.parents))


def _words(folder: Path, *names: str) -> list[str]:
    """Return the words of the first of some files that can be read."""
    for name in names:
        with suppress(OSError):
            return (folder / name).read_text().split()
    return []


def _cached(folder: Path) -> int:
    """Return the bytes of cached files that the kernel drops first."""
    words = _words(folder, "memory.stat")
    values = dict(zip(words[::2], words[1::2], strict=False))
    return int(values.get("inactive_file", values.get("total_inactive_file", 0)))


MIN_MEMORY = 2_000_000_000
MIN_OPEN_FILES = 65_536
MIN_SHARED_MEMORY = 1_000_000_000
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - looked at, not written to


def check_machine() -> Iterator[CheckResult]:
    """Check the resources of this machine that a job needs."""
    yield check_cpus()
    yield check_cpu_level()
    is_linux = sys.platform == "linux"
    if is_linux:
        yield check_memory()
    yield check_open_files()
    if is_linux:
        yield check_shared_memory()


def check_cpus(root: Path = Path("/")) -> CheckResult:
    """Check the number of usable CPUs: a limit that Ray does not see slows every task."""
    name, usable, limit = "CPUs", usable_cpus(), cpu_limit(root)
    text = f"{usable} usable of {os.cpu_count()}"
    if limit is not None and limit < usable:
        return warning(
            name,
            f"{text}, and the container's limit is the time of {limit:g}",
            f"pass --cpus {max(1, int(limit))}, or raise the limit",
        )
    return passed(name, text)


def check_cpu_level() -> CheckResult:
    """Check the CPU instructions that the core uses, compared with those available."""
    name, forced = "CPU features", os.environ.get("NANOTOK_CPU")
    try:
        from nanotok_ray._core import cpu_level, cpu_levels  # noqa: PLC0415 - it may be missing

        level, levels = cpu_level(), cpu_levels()
    except ImportError:
        return failure(name, "unknown: there is no core (see above)")
    except TokenizerError as error:
        return failure(name, str(error), "unset NANOTOK_CPU")
    text = f"{level} of {', '.join(levels)}" + (", by NANOTOK_CPU" if forced else "")
    if level != levels[-1]:
        advice = f"unset NANOTOK_CPU, and {levels[-1]} is used: the same results, faster"
        return warning(name, text, advice)
    return passed(name, text)


def check_memory(root: Path = Path("/")) -> CheckResult:
    """Check the memory that is available, within the container's limit."""
    name = "memory"
    values = dict(re.findall(r"(\w+):\s+(\d+) kB", (root / "proc/meminfo").read_text()))
    total, available = (int(values[key]) * 1024 for key in ("MemTotal", "MemAvailable"))
    limit = memory_limit(root)
    if limit is not None and limit < total:
        total, available = limit, min(available, limit - (memory_used(root) or 0))
    text = f"{available / 1e9:.1f} GB available of {total / 1e9:.1f} GB"
    if limit is not None and limit == total:
        text += ", the container's limit"
    if available < MIN_MEMORY:
        minimum = f"{MIN_MEMORY / 1e9:.0f} GB"
        advice = f"free some memory: a job needs {minimum} or more, depending on its vocabulary"
        return warning(name, text, advice)
    return passed(name, text)


def check_open_files() -> CheckResult:
    """Check the limit of open files of a process: Ray's head opens several for each worker."""
    name, limits = "open files", file_limits()
    if limits is None:
        return passed(name, "Windows has no limit of a process")
    is_fixed = limits.now == limits.raised
    raised = "may not be raised" if is_fixed else f"may be raised to {_limit_text(limits.raised)}"
    text = f"at most {_limit_text(limits.now)} (ulimit -n), {raised}"
    if limits.now is not None and limits.now < MIN_OPEN_FILES:
        how = "ask your administrator for ulimit -n" if is_fixed else "ulimit -n"
        advice = f"for a head of many workers, {how} {MIN_OPEN_FILES} before Ray starts"
        return warning(name, text, advice)
    return passed(name, text)


def _limit_text(limit: int | None) -> str:
    return "any number" if limit is None else f"{limit:,}"


def check_shared_memory() -> CheckResult:
    """Check the size of shared memory, where Ray keeps its objects."""
    name = "shared memory"
    advice = "start the container with --shm-size=2g, or Ray keeps its objects on disk"
    try:
        space = disk_space(SHARED_MEMORY)
    except OSError as error:
        text = f"{SHARED_MEMORY}: {error.strerror}"
        return warning(name, text, advice)
    text = f"{space.free / 1e9:.1f} GB free of {space.total / 1e9:.1f} GB in {SHARED_MEMORY}"
    if space.free < MIN_SHARED_MEMORY:
        return warning(name, text, advice)
    return passed(name, text)


MIN_FREE = 10_000_000_000
MIN_SHARE = 0.1


def check_disk(folder: str) -> CheckResult:
    """Check the disk of a local folder, which need not exist."""
    name = "disk"
    try:
        space = disk_space(_existing(folder))
    except OSError as error:
        return failure(name, f"{folder}: {error.strerror}", "name another one")
    text = f"{folder}: {format_bytes(space.free)} free of {format_bytes(space.total)}"
    has_inodes = space.inodes > 0  # some file systems do not count them
    if has_inodes:
        text += f", {space.free_inodes:,} inodes free of {space.inodes:,}"
    if space.free == 0 or (has_inodes and space.free_inodes == 0):
        return failure(name, text, "it is full: free some space")
    if space.free < MIN_FREE or space.free < MIN_SHARE * space.total:
        advice = "free some space: shards take 2 or 4 bytes per token, and work/ holds the counts"
        return warning(name, text, advice)
    if has_inodes and space.free_inodes < MIN_SHARE * space.inodes:
        advice = "remove small files, or make slices larger (limits.slice_bytes)"
        return warning(name, text, advice)
    return passed(name, text)


BYTES_PER_TOKEN = 3.0
"""Bytes of text per token for estimates: fewer than in most corpora, so that estimates are high."""

COUNTS_SHARE = 0.08
"""Bytes of count files per byte of counted text, for slices of 256 MiB."""

_COUNTS_GROWTH = 0.55
"""The exponent of the number of distinct spans as a function of the size of a slice
(docs/sizing.md).
"""

_MAX_COUNTS_SHARE = 0.5

_SHORT_IDS = 2**16


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """The estimated growth of a local disk or a store by a job, and its free space."""

    folder: str
    needed: int
    """In bytes, as is `free`."""
    free: int | None
    """None for a store, which does not report it."""

    @property
    def fits(self) -> bool:
        """Whether the free space is sufficient."""
        return self.free is None or self.needed <= self.free

    def text(self) -> str:
        """Return the line for people.

        >>> Space(folder="/data/out", needed=9_000_000, free=2_000_000).text()
        '/data/out: about 9.0 MB needed, only 2.0 MB free; free some space or choose another folder'
        """
        needed = format_bytes(self.needed)
        if self.free is None:
            return f"{self.folder}: about {needed} needed"
        free = format_bytes(self.free)
        if self.fits:
            return f"{self.folder}: about {needed} needed, {free} free"
        return (
            f"{self.folder}: about {needed} needed, only {free} free; free some space or choose "
            "another folder"
        )


def counts_share(slice_bytes: int) -> float:
    """Return the bytes of count files per byte of text: small slices repeat more spans.

    >>> round(counts_share(256 << 20), 2), round(counts_share(16 << 20), 2)
    (0.08, 0.28)
    """
    return float(
        min(_MAX_COUNTS_SHARE, COUNTS_SHARE * (slice_bytes / 2**28) ** (_COUNTS_GROWTH - 1))
    )


def space_for(recipe: Recipe, *, counted: int, tokenized: Mapping[str, int]) -> list[Space]:
    """Estimate the bytes that a job adds to the disks and stores of its folders.

    Args:
        recipe: the recipe.
        counted: the bytes of counted text.
        tokenized: the bytes of tokenized text by kind of source.

    Returns:
        One value for each disk, and for each folder in a store.
    """
    tokenizer = recipe.tokenizer
    is_wide = tokenizer.path is None and tokenizer.vocab_size + len(tokenizer.extend) > _SHORT_IDS
    tokens = {kind: size / BYTES_PER_TOKEN for kind, size in tokenized.items()}
    shards = sum(tokens.values()) * (4 if is_wide else 2)
    masks = sum(number for kind, number in tokens.items() if kind != "text")
    needed = {
        recipe.output.path: (shards + masks) * (1 + len(recipe.output.layouts)),
        recipe.output.work: counted * counts_share(recipe.limits.slice_bytes),
    }
    disks: dict[int | str, Space] = {}
    for folder, size in needed.items():
        path = local_path(folder)
        if path is None:
            disks[folder] = Space(folder=folder, needed=round(size), free=None)
            continue
        existing = _existing(path)
        disk = existing.stat().st_dev
        known = disks.get(disk)
        disks[disk] = Space(
            folder=known.folder if known else path,
            needed=round(size) + (known.needed if known else 0),
            free=shutil.disk_usage(existing).free,
        )
    return list(disks.values())


def check_space(recipe: Recipe, sizes: Mapping[str, int]) -> Iterator[CheckResult]:
    """Compare the estimate of a job's output with the free space, from the bytes of each source."""
    tokenized: Counter[str] = Counter()
    for source in recipe.sources:
        tokenized[source.kind] += sizes.get(source.name, 0)
    is_learned = recipe.tokenizer.path is None
    counted = sum(
        sizes.get(source.name, 0) for source in recipe.sources if source.count and is_learned
    )
    for space in space_for(recipe, counted=counted, tokenized=tokenized):
        status: Status = "ok" if space.fits else "warn"
        yield CheckResult(name="space", status=status, found=space.text())


def _existing(folder: str) -> Path:
    """Return the deepest existing folder of a path."""
    path = Path(folder)
    return next((candidate for candidate in (path, *path.parents) if candidate.exists()), Path("/"))
