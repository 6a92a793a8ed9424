"""Count files merged in groups, so that one process need not read very many: groups, and the merge.

Which files are a group depends on their keys alone. A merged file is the count file that counting
all the texts of its files would have made. Knows neither Ray nor what the counts are for.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from nanotok_ray import _core
from nanotok_ray.count_file import (
    COUNTS_FORMAT,
    NUM_RANGES,
    CountWriter,
    Run,
    range_sizes,
)
from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.count_ranges import BUFFER_BYTES, CountRanges
from nanotok_ray.count_reader import origins_of
from nanotok_ray.manifest import RECORD_FORMAT, key_of
from nanotok_ray.storage import Folder
from nanotok_ray.storage.folder import arrow_sink

TARGET = 64
"""Files of a group, about."""

LONGEST = 4
"""No group has more than so many times the files that are aimed at."""


def merge_groups(keys: Sequence[str], *, target: int = TARGET) -> list[tuple[int, int]]:
    """Give (first, end) of groups of neighbours: about `target` keys, four times that at most.

    A group ends where the hash of a key says so, and a group that is too long is cut again after
    the key with the smallest hash in it. So a key that is added or removed changes the group in
    which it lies, and rarely one beside it.

    >>> merge_groups(["a", "b", "c", "d"], target=1), merge_groups([])
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [])
    """
    hashes = [_core.hash64(key.encode()) for key in keys]
    ends = [number + 1 for number, each in enumerate(hashes) if each % target == 0]
    bounds = sorted({0, *ends, len(keys)})
    groups = pairwise(bounds)
    return [part for group in groups for part in _cut(hashes, *group, most=LONGEST * target)]


def merged_key(keys: Sequence[str]) -> str:
    """Give the key of the count file that is merged from those with these keys."""
    return key_of({"counts": list(keys), "format": COUNTS_FORMAT})


def merge_count_files(
    urls: Sequence[str],
    *,
    keys: Sequence[str],
    folder: Folder,
    name: str,
    buffer_bytes: int = BUFFER_BYTES,
) -> dict[str, Any]:
    """Add up count files of one origin, write `name`.arrow and give its record.

    Held at most: twice the buffer. The files are read twice, as the head of a count file says how
    many rows each hash range has: nothing is put on a disk meanwhile.

    Args:
        urls: the files, at least one.
        keys: the key of each.
        folder: where the merged file goes.
        name: its name there, without `.arrow`.
        buffer_bytes: read so much of all files at once.

    Raises:
        CorruptOutputError: a file is not a count file of this version, or is damaged; names it.
        CountOverflowError: a sum would pass 2**64 - 1; names the span.
        CountsError: the files were cut in different ways.
        FileNotFoundError: there is no such file.
    """
    origin = CountOrigin.joined(origins_of(urls))
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
    return {
        "format": RECORD_FORMAT,
        "stage": "merge",
        "key": merged_key(keys),
        "count_files": len(urls),
        "texts": origin.texts,
        "text_bytes": origin.text_bytes,
        "spans": origin.spans,
        "distinct_spans": int(sizes.sum()),
        "gaps": origin.num_gaps,
        "files": [{"name": f"{name}.arrow", "size": file.size, "sha256": file.sha256}],
    }


def _runs(urls: Sequence[str], buffer_bytes: int) -> Iterator[Run]:
    """Give the sums of one hash range after the other."""
    weights = [1] * len(urls)
    with CountRanges(urls, buffer_bytes=buffer_bytes) as ranges:
        for number in range(ranges.num_ranges):
            sums = _core.RunSums(hashes=True)
            ranges.add(sums, number, weights)
            yield sums.take()


def _cut(hashes: Sequence[int], first: int, end: int, *, most: int) -> Iterator[tuple[int, int]]:
    """Cut a group that is too long, by a rule that sees only what is in it."""
    waiting = [(first, end)]
    while waiting:
        first, end = waiting.pop()
        if end - first <= most:
            yield first, end
            continue
        least = min(range(first, end - 1), key=lambda number: (hashes[number], number))
        waiting += [(least + 1, end), (first, least + 1)]
