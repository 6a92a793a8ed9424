"""Merges count files in groups, so that a sum does not open too many."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from nanotok_ray import _core
from nanotok_ray.counts.count_file import (
    COUNTS_FORMAT,
    NUM_RANGES,
    CountProvenance,
    CountWriter,
    Run,
    provenances_of,
    range_sizes,
)
from nanotok_ray.counts.hash_ranges import (
    BUFFER_BYTES,
    CountRanges,
)
from nanotok_ray.formats import MergeRecord, StoredFile, key_of
from nanotok_ray.storage import Folder, arrow_sink

TARGET = 64
"""The desired number of files of a group."""

MAX_GROUP = 4
"""Limit of the size of a group as a multiple of the desired size."""


def merge_groups(keys: Sequence[str], *, target: int = TARGET) -> list[tuple[int, int]]:
    """Return (first, end) of groups of adjacent keys: about `target`, at most four times that.

    The hash of a key determines whether a group ends after it, and a group that is too long is
    divided after the key with the smallest hash. Adding or removing a key therefore changes its
    own group, and rarely an adjacent one.

    >>> merge_groups(["a", "b", "c", "d"], target=1), merge_groups([])
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [])
    """
    hashes = [_core.hash64(key.encode()) for key in keys]
    ends = [number + 1 for number, hash64 in enumerate(hashes) if hash64 % target == 0]
    bounds = sorted({0, *ends, len(keys)})
    groups = pairwise(bounds)
    return [part for group in groups for part in _cut(hashes, *group, max_keys=MAX_GROUP * target)]


def merged_key(keys: Sequence[str]) -> str:
    """Return the key of the sum of the count files with these keys."""
    return key_of({"counts": list(keys), "format": COUNTS_FORMAT})


def merge_count_files(
    urls: Sequence[str],
    *,
    keys: Sequence[str],
    folder: Folder,
    name: str,
    buffer_bytes: int = BUFFER_BYTES,
) -> MergeRecord:
    """Add count files of equal provenance rules, write `name`.arrow and return its record.

    The memory is at most twice the buffer. The files are read twice, since the head of a count
    file contains the number of rows of each hash range; no temporary file is written.

    Args:
        urls: the files, at least one.
        keys: the key of each.
        folder: the folder of the merged file.
        name: the name of the merged file, without `.arrow`.
        buffer_bytes: the limit of the rows in memory of all files together.

    Raises:
        CorruptOutputError: A file is damaged or not a count file of this version; the message
            names it.
        CountOverflowError: A sum would exceed 2**64 - 1; the message names the span.
        CountsError: The files have different patterns, rules for gaps or versions of Unicode.
        FileNotFoundError: A file does not exist.
    """
    origin = CountProvenance.joined(provenances_of(urls))
    sizes = np.zeros(NUM_RANGES, dtype=np.int64)
    span_bytes = 0
    for run in _runs(urls, buffer_bytes):
        sizes += range_sizes(run[0])
        span_bytes += len(run[1])
    with folder.create(f"{name}.arrow") as file:
        writer = CountWriter(arrow_sink(file), sizes, origin, span_bytes=span_bytes)
        for run in _runs(urls, buffer_bytes):
            writer.write(run)
        writer.close()
    return MergeRecord(
        stage="merge",
        key=merged_key(keys),
        count_files=len(urls),
        texts=origin.texts,
        text_bytes=origin.text_bytes,
        spans=origin.spans,
        distinct_spans=int(sizes.sum()),
        gaps=origin.num_gaps,
        files=(StoredFile(name=f"{name}.arrow", size=file.size, sha256=file.sha256),),
    )


def _runs(urls: Sequence[str], buffer_bytes: int) -> Iterator[Run]:
    """Yield the sums of one hash range after the other."""
    weights = [1] * len(urls)
    with CountRanges(urls, buffer_bytes=buffer_bytes) as ranges:
        for number in range(ranges.num_ranges):
            sums = _core.RunSums(hashes=True)
            ranges.add(sums, number, weights)
            yield sums.take()


def _cut(
    hashes: Sequence[int], first: int, end: int, *, max_keys: int
) -> Iterator[tuple[int, int]]:
    """Divide a group that is too long, by a rule that depends only on its own keys."""
    waiting = [(first, end)]
    while waiting:
        first, end = waiting.pop()
        if end - first <= max_keys:
            yield first, end
            continue
        smallest = min(range(first, end - 1), key=lambda number: (hashes[number], number))
        waiting += [(smallest + 1, end), (first, smallest + 1)]
