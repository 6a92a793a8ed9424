"""Counting a corpus in this process: slices to counts, by threads, in bounded memory.

Each thread counts slices batch by batch in a table of its own; the tables are added at the end.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Final

from nanotok_ray.counts.patterns import default_threads
from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.errors import SplitError
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.quarantine import QuarantineEntry
from nanotok_ray.sources.slices import SliceReading

MAX_ENTRIES: Final = 20
"""So many of the documents that could not be used are named one by one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusCounts:
    """What was counted of a corpus, and what was not."""

    counts: SpanCounts
    documents: int
    """How many came in, quarantined ones included."""
    quarantined: Mapping[str, int]
    """How many could not be used, for each kind of reason."""
    entries: tuple[QuarantineEntry, ...]
    """The first `MAX_ENTRIES` of these, in the order of the slices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Account:
    """What was seen of one slice."""

    documents: int
    reasons: Mapping[str, int]
    entries: tuple[QuarantineEntry, ...]


def count_corpus(
    slices: Sequence[Slice],
    *,
    pattern: str,
    threads: int | None = None,
    on_slice: Callable[[int, int], None] | None = None,
) -> CorpusCounts:
    """Count the spans of all documents; the counts depend neither on threads nor on order.

    Args:
        slices: of kind text.
        pattern: a regular expression or a name.
        threads: how many read and count; None: all cores.
        on_slice: called in the caller's thread with the number of slices done and their bytes.

    Raises:
        PatternError: The pattern is unknown or cannot be compiled.
        CountsError: `threads` is less than 1.
        SourceError: A file is gone, or is not as it was when it was found.
        TransientIOError: A remote store failed in a way that may pass.
        CountOverflowError: A count would pass 2**64 - 1.
    """
    num_threads = default_threads() if threads is None else threads
    counts = SpanCounts(pattern, threads=num_threads)
    size = max(1, min(num_threads, len(slices)))
    counters = [SpanCounts(pattern, threads=1) for _ in range(size)]
    idle: SimpleQueue[SpanCounts] = SimpleQueue()
    for counter in counters:
        idle.put(counter)
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=len(counters)) as pool:
        works = {pool.submit(_count_slice, slice_, idle, stop): slice_ for slice_ in slices}
        try:
            _wait(works, on_slice)
        except BaseException:
            stop.set()  # a slice may be one large file
            pool.shutdown(cancel_futures=True)
            raise
        list(pool.map(SpanCounts.run, counters))  # each sorts its own
    counts.merge(*counters)
    accounts = [work.result() for work in works]
    entries = (entry for account in accounts for entry in account.entries)
    return CorpusCounts(
        counts=counts,
        documents=sum(account.documents for account in accounts),
        quarantined=_sum([account.reasons for account in accounts]),
        entries=tuple(islice(entries, MAX_ENTRIES)),
    )


def _wait(
    works: Mapping["Future[_Account]", Slice], on_slice: Callable[[int, int], None] | None
) -> None:
    """Wait for all slices.

    Raises:
        NanotokError: One of them failed.
    """
    num_bytes = 0
    for done, work in enumerate(as_completed(works), start=1):
        work.result()
        num_bytes += works[work].num_bytes
        if on_slice is not None:
            on_slice(done, num_bytes)


def _count_slice(slice_: Slice, idle: "SimpleQueue[SpanCounts]", stop: threading.Event) -> _Account:
    counter = idle.get()
    try:
        reading = SliceReading(slice_, with_document_ids=False)
        for piece, batch in reading:
            if stop.is_set():
                break
            _count_batch(counter, batch, piece=piece, reading=reading)
    finally:
        idle.put(counter)
    return _Account(
        documents=reading.documents_in,
        reasons=reading.reasons,
        entries=tuple(islice(reading.quarantined, MAX_ENTRIES)),
    )


def _count_batch(counter: SpanCounts, batch: Batch, *, piece: int, reading: SliceReading) -> None:
    """Count documents; one that cannot be split is quarantined, the others still count."""
    try:
        counter.update(batch.documents)
    except SplitError:  # nothing of the batch was counted
        for number in range(len(batch.documents)):
            try:
                counter.update(batch.documents.part(number, number + 1))
            except SplitError as error:
                reading.quarantine(piece, batch, number, reason=error.reason)


def _sum(reasons: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in reasons:
        total.update(counts)
    return dict(sorted(total.items()))
