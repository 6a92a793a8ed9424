"""Counts the documents of slices into a count file and its record, or into counts in memory."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import chain, islice, pairwise
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray import _core
from nanotok_ray.chat import PLACEHOLDER, texts_of
from nanotok_ray.counts.count_file import COUNTS_FORMAT, CountProvenance, pack_counts
from nanotok_ray.counts.patterns import default_threads, resolve_pattern
from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CountsError, SplitError
from nanotok_ray.formats import CountFlow, CountRecord, Gaps, SliceName, StoredFile, key_of
from nanotok_ray.recipe import MAX_DOCUMENT_BYTES
from nanotok_ray.sources import (
    COUNTED_SUFFIX,
    Batch,
    QuarantineEntry,
    Slice,
    SliceReading,
    write_quarantine,
)
from nanotok_ray.storage import Folder

MAX_ENTRIES: Final = 20
"""Limit of the documents that could not be used in the result of `count_corpus`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountSettings:
    """Settings of a count file: all that it depends on besides its slice."""

    pattern: str
    gaps: Gaps
    """"spans" or "error"."""
    doc_cap: int | None = None
    """The number of code points of a document that are counted; None: all."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """Larger documents are quarantined."""
    grounding: tuple[str, ...] = ()
    """Special tokens that the text of a vision document can spell."""
    budget: int | None = None
    """Code points that remain for this slice under max_chars: counting ends after the document
    that reaches this number; None: no limit.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return all settings on which a count file depends besides its slice."""
        values = {**asdict(self), "unicode": _core.UNICODE_VERSION, "format": COUNTS_FORMAT}
        if not self.grounding:  # for sources of other kinds
            del values["grounding"]
        return values

    def key(self, slice_: Slice) -> str:
        """Return the key of the count file of a slice."""
        return key_of({"slice": slice_.key, "counting": self.to_dict()})


def count_slice(
    slice_: Slice,
    settings: CountSettings,
    *,
    folder: Folder,
    name: str,
    give_up_after: int | None = None,
) -> CountRecord:
    """Count the spans of a slice, write `name`.arrow and return the record of the count file.

    Raises:
        AllBadError: The first `give_up_after` documents were all quarantined; nothing is written.
        SourceError, TransientIOError: The input cannot be read.
        CountOverflowError: A count would exceed 2**64 - 1.
    """
    reading = SliceReading(
        slice_,
        max_document_bytes=settings.max_document_bytes,
        with_document_ids=False,
        give_up_after=give_up_after,
    )
    counter = _core.SpanCounts(settings.pattern, gaps=settings.gaps)
    account = _count(reading, settings, counter)
    origin = _provenance(settings, [counter], [account])
    data = pack_counts(counter.sorted_run(), origin)
    return CountRecord(
        stage="count",
        key=settings.key(slice_),
        slice=SliceName(source=slice_.source, split=slice_.split, number=slice_.number),
        read=tuple(reading.read),
        documents=CountFlow(in_=reading.documents_in, quarantined=len(reading.quarantined)),
        quarantined=reading.reasons,
        texts=account.texts,
        text_bytes=account.text_bytes,
        code_points=account.code_points,
        spans=counter.total(),
        distinct_spans=counter.num_distinct(),
        gaps=counter.num_gaps(),
        files=_write_files(data, reading, folder=folder, name=name),
    )


def _count(
    reading: SliceReading,
    settings: CountSettings,
    counter: _core.SpanCounts,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> "_Account":
    """Count the documents of a slice, up to the budget or until the call is cancelled."""
    account = _Account(budget=settings.budget)
    for piece, batch in reading:
        if is_cancelled():
            break
        texts, bounds = _texts(reading, settings, piece, batch)
        chosen = account.take(_capped(texts, settings.doc_cap))
        for lost in _update(counter, chosen, bounds, reading=reading, piece=piece, batch=batch):
            account.texts -= len(lost)
            account.text_bytes -= lost.num_bytes
        if account.is_spent:
            break
    return account


def _provenance(
    settings: CountSettings, counters: Sequence[_core.SpanCounts], accounts: Sequence["_Account"]
) -> CountProvenance:
    return CountProvenance(
        pattern=settings.pattern,
        gaps=settings.gaps,
        texts=sum(account.texts for account in accounts),
        text_bytes=sum(account.text_bytes for account in accounts),
        spans=sum(counter.total() for counter in counters),
        num_gaps=sum(counter.num_gaps() for counter in counters),
    )


def _write_files(
    data: pa.Buffer, reading: SliceReading, *, folder: Folder, name: str
) -> tuple[StoredFile, ...]:
    """Write the count file, and the quarantine file unless it would be empty."""
    with folder.create(f"{name}.arrow") as file:
        file.write(data)
    files = [StoredFile(name=f"{name}.arrow", size=file.size, sha256=file.sha256)]
    if reading.quarantined:
        listed = f"{name}{COUNTED_SUFFIX}"
        size, sha256 = write_quarantine(folder, reading.quarantined, name=listed)
        files.append(StoredFile(name=listed, size=size, sha256=sha256))
    return tuple(files)


@dataclass(slots=True)
class _Account:
    """The code points counted so far, and their limit."""

    budget: int | None
    texts: int = 0
    text_bytes: int = 0
    code_points: int = 0
    is_spent: bool = False

    def take(self, texts: Documents) -> Documents:
        """Return the leading texts within the budget; the last one can exceed it."""
        if self.is_spent:
            return texts.take(np.zeros(0, dtype=np.int64))
        lengths = _code_points(texts)
        if self.budget is not None:
            passed = np.flatnonzero(self.code_points + np.cumsum(lengths) > self.budget)
            if len(passed):
                self.is_spent = True
                texts = texts.take(np.arange(passed[0] + 1))
                lengths = lengths[: passed[0] + 1]
        self.texts += len(texts)
        self.text_bytes += texts.num_bytes
        self.code_points += int(lengths.sum())
        return texts


def _texts(
    reading: SliceReading, settings: CountSettings, piece: int, batch: Batch
) -> tuple[Documents, npt.NDArray[np.int64]]:
    """Return the texts of a batch, the index of the first text of each document, and the end."""
    slice_ = reading.slice
    if slice_.kind == "text":
        return batch.documents, np.arange(len(batch.documents) + 1)
    name = slice_.pieces[piece].file.dialect
    assert name is not None, "the plan names the dialect of every such file"
    dialect = Dialect(
        kind=slice_.kind, name=name, image_token=PLACEHOLDER, grounding=settings.grounding
    )
    found = texts_of(dialect, batch.documents)
    for index, reason in found.problems.items():
        reading.quarantine(piece, batch, index, reason=reason)
    return found.texts, found.bounds


def _update(
    counter: _core.SpanCounts,
    texts: Documents,
    bounds: npt.NDArray[np.int64],
    *,
    reading: SliceReading,
    piece: int,
    batch: Batch,
) -> Iterator[Documents]:
    """Count texts, quarantine documents that cannot be split, and yield the counted texts.

    A failed update counts no text of its call, so a failed batch is counted again document by
    document; all texts of a conversation are counted or none.
    """
    try:
        counter.update(texts.data, texts.offsets)
    except SplitError:
        ends = np.minimum(bounds, len(texts)).tolist()
        for number, (start, end) in enumerate(pairwise(ends)):
            document_texts = texts.part(start, end)
            try:
                counter.update(document_texts.data, document_texts.offsets)
            except SplitError as error:
                reading.quarantine(piece, batch, number, reason=error.reason)
                yield document_texts


def _capped(texts: Documents, doc_cap: int | None) -> Documents:
    if doc_cap is None:
        return texts
    return Documents.from_arrow(pc.utf8_slice_codeunits(texts.to_arrow(), 0, doc_cap))


def _code_points(texts: Documents) -> npt.NDArray[np.int64]:
    return np.asarray(pc.utf8_length(texts.to_arrow()), dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusCounts:
    """The counts of a corpus, and the documents that could not be counted."""

    counts: SpanCounts
    documents: int
    """Number of documents read, including quarantined ones."""
    quarantined: Mapping[str, int]
    """Number of documents that could not be used, by kind of reason."""
    entries: tuple[QuarantineEntry, ...]
    """The first `MAX_ENTRIES` of these documents, in the order of the slices."""


@dataclass(frozen=True, slots=True)
class _CountedSlice:
    """The result of one slice."""

    account: _Account
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
    """Count the spans of slices in this process, by threads, in bounded memory.

    Each thread counts slices in a table of its own; the tables are added at the end, so the counts
    depend neither on the number of threads nor on the order of the slices.

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
    if num_threads < 1:
        raise CountsError(f"threads is {threads}: it must be at least 1, or None for all cores")
    settings = CountSettings(pattern=resolve_pattern(pattern), gaps="spans")
    counters = [
        _core.SpanCounts(settings.pattern, gaps=settings.gaps)
        for _ in range(max(1, min(num_threads, len(slices))))
    ]
    idle: SimpleQueue[_core.SpanCounts] = SimpleQueue()
    for counter in counters:
        idle.put(counter)
    stop = threading.Event()

    def count(slice_: Slice) -> _CountedSlice:
        reading, counter = SliceReading(slice_, with_document_ids=False), idle.get()
        try:
            account = _count(reading, settings, counter, stop.is_set)
        finally:
            idle.put(counter)
        entries = tuple(islice(reading.quarantined, MAX_ENTRIES))
        return _CountedSlice(account, reading.documents_in, reading.reasons, entries)

    with ThreadPoolExecutor(max_workers=len(counters)) as pool:
        works = {pool.submit(count, slice_): slice_ for slice_ in slices}
        try:
            _wait(works, on_slice)
        except BaseException:
            stop.set()  # a slice may be one large file
            pool.shutdown(cancel_futures=True)
            raise
        counted = [work.result() for work in works]
        origin = _provenance(settings, counters, [ended.account for ended in counted])
        runs = list(pool.map(_core.SpanCounts.sorted_run, counters))
    reasons: Counter[str] = Counter()
    for ended in counted:
        reasons.update(ended.reasons)
    entries = chain.from_iterable(ended.entries for ended in counted)
    return CorpusCounts(
        counts=SpanCounts.of_runs(origin, *runs, num_threads=num_threads),
        documents=sum(ended.documents for ended in counted),
        quarantined=dict(sorted(reasons.items())),
        entries=tuple(islice(entries, MAX_ENTRIES)),
    )


def _wait(
    works: Mapping["Future[_CountedSlice]", Slice], on_slice: Callable[[int, int], None] | None
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
