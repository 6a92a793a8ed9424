"""Checks of the disks of a job: their free space, and the estimate of what a job writes."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanotok_ray.formats import local_path
from nanotok_ray.job.doctor.result import CheckResult, Status, failure, passed, warning
from nanotok_ray.recipe import Recipe
from nanotok_ray.system import disk_space
from nanotok_ray.units import format_bytes

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
