"""Counts the documents of slices into a count file and its record, or into counts in memory."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
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
from nanotok_ray.counts.patterns import default_threads, new_counter, resolve_pattern
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
class SuperwordCounting:
    """What is counted for tokens of several words: pairs or segments of ids of spans."""

    tokenizer: str
    """URL of the folder of the tokenizer of the first stage."""
    tokenizer_sha256: str
    pattern: str
    """The pattern of the second stage, a regular expression."""
    pairs: str | None = None
    """URL of the file of frequent pairs; None: pairs are counted."""
    pairs_sha256: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return all on which the counts depend, which excludes places."""
        return {
            "tokenizer": self.tokenizer_sha256,
            "pattern": self.pattern,
            "pairs": self.pairs_sha256,
        }


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
    superwords: SuperwordCounting | None = None
    """What is counted in place of spans; None: spans."""

    def to_dict(self) -> dict[str, Any]:
        """Return all settings on which a count file depends besides its slice."""
        values = {**asdict(self), "unicode": _core.UNICODE_VERSION, "format": COUNTS_FORMAT}
        if not self.grounding:  # for sources of other kinds
            del values["grounding"]
        del values["superwords"]
        if self.superwords is not None:
            values["superwords"] = self.superwords.to_dict()
        return values

    def key(self, slice_: Slice) -> str:
        """Return the key of the count file of a slice."""
        return key_of({"slice": slice_.key, "counting": self.to_dict()})


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


def count_slice(
    slice_: Slice,
    settings: CountSettings,
    *,
    folder: Folder,
    name: str,
    give_up_after: int | None = None,
    counter: _core.SpanCounts | None = None,
) -> CountRecord:
    """Count the spans of a slice, write `name`.arrow and return the record of the count file.

    `counter` is empty, and counts what the settings say; None: spans.

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
    if counter is None:
        counter = new_counter(settings.pattern, gaps=settings.gaps)
    counting = _Counting(reading=reading, settings=settings, counter=counter)
    counting.run()
    origin = _provenance(settings, [counter], [counting.account])
    data = pack_counts(counter.sorted_run(), origin)
    return CountRecord(
        stage="count",
        key=settings.key(slice_),
        slice=SliceName(source=slice_.source, split=slice_.split, number=slice_.number),
        read=tuple(reading.read),
        documents=CountFlow(in_=reading.documents_in, quarantined=len(reading.quarantined)),
        quarantined=reading.reasons,
        texts=counting.account.texts,
        text_bytes=counting.account.text_bytes,
        code_points=counting.account.code_points,
        spans=counter.total(),
        distinct_spans=counter.num_distinct(),
        gaps=counter.num_gaps(),
        dropped=dict(reading.dropped),
        files=_write_files(data, reading, folder=folder, name=name),
    )


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
        new_counter(settings.pattern, gaps=settings.gaps)
        for _ in range(max(1, min(num_threads, len(slices))))
    ]
    with ThreadPoolExecutor(max_workers=len(counters)) as pool:
        counted = _count_slices(slices, settings, counters, pool, on_slice)
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


@dataclass(slots=True)
class _Account:
    """The texts and code points counted so far."""

    texts: int = 0
    text_bytes: int = 0
    code_points: int = 0
    is_spent: bool = False
    """Whether the budget was reached."""

    def take(self, texts: Documents, budget: int | None) -> Documents:
        """Return the leading texts within the budget; the last one can exceed it."""
        lengths = np.asarray(pc.utf8_length(texts.to_arrow()), dtype=np.int64)
        if budget is not None:
            passed = np.flatnonzero(self.code_points + np.cumsum(lengths) > budget)
            if len(passed):
                self.is_spent = True
                texts = texts.take(np.arange(passed[0] + 1))
                lengths = lengths[: passed[0] + 1]
        self.texts += len(texts)
        self.text_bytes += texts.num_bytes
        self.code_points += int(lengths.sum())
        return texts


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counting:
    """The counting of one slice into a table."""

    reading: SliceReading
    settings: CountSettings
    counter: _core.SpanCounts
    account: _Account = field(default_factory=_Account)

    def run(self, is_cancelled: Callable[[], bool] = lambda: False) -> None:
        """Count the documents, up to the budget or until the call is cancelled."""
        for piece, batch in self.reading:
            if is_cancelled():
                break
            texts, bounds = self._texts(piece, batch)
            if self.settings.doc_cap is not None:
                capped = pc.utf8_slice_codeunits(texts.to_arrow(), 0, self.settings.doc_cap)
                texts = Documents.from_arrow(capped)
            texts = self.account.take(texts, self.settings.budget)
            try:
                self.counter.update(texts.data, texts.offsets)
            except SplitError:
                self._count_documents(piece, batch, texts, bounds)
            if self.account.is_spent:
                break

    def _texts(self, piece: int, batch: Batch) -> tuple[Documents, npt.NDArray[np.int64]]:
        """Return the texts of a batch, and where those of each document begin and the last end."""
        slice_ = self.reading.slice
        if slice_.kind == "text":
            return batch.documents, np.arange(len(batch.documents) + 1)
        name = slice_.pieces[piece].file.dialect
        assert name is not None, "the plan names the dialect of every such file"
        grounding = self.settings.grounding
        dialect = Dialect(kind=slice_.kind, name=name, image_token=PLACEHOLDER, grounding=grounding)
        texts = texts_of(dialect, batch.documents)
        for index, reason in texts.problems.items():
            self.reading.quarantine(piece, batch, index, reason=reason)
        return texts.texts, texts.bounds

    def _count_documents(
        self, piece: int, batch: Batch, texts: Documents, bounds: npt.NDArray[np.int64]
    ) -> None:
        """Count a batch again document by document, since a failed update counts no text.

        Documents that cannot be split are quarantined; all texts of one are counted or none.
        """
        ends = np.minimum(bounds, len(texts)).tolist()
        for number, (start, end) in enumerate(pairwise(ends)):
            document_texts = texts.part(start, end)
            try:
                self.counter.update(document_texts.data, document_texts.offsets)
            except SplitError as error:
                self.reading.quarantine(piece, batch, number, reason=error.reason)
                self.account.texts -= len(document_texts)
                self.account.text_bytes -= document_texts.num_bytes


def _provenance(
    settings: CountSettings, counters: Sequence[_core.SpanCounts], accounts: Sequence["_Account"]
) -> CountProvenance:
    pattern = settings.pattern
    if settings.superwords is not None:  # so that such counts are not added to others
        pattern = json.dumps(settings.superwords.to_dict())
    return CountProvenance(
        pattern=pattern,
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


@dataclass(frozen=True, slots=True)
class _CountedSlice:
    """The result of one slice."""

    account: _Account
    documents: int
    reasons: Mapping[str, int]
    entries: tuple[QuarantineEntry, ...]


def _count_slices(
    slices: Sequence[Slice],
    settings: CountSettings,
    counters: Sequence[_core.SpanCounts],
    pool: ThreadPoolExecutor,
    on_slice: Callable[[int, int], None] | None,
) -> list[_CountedSlice]:
    """Count each slice in a table that no other thread uses at the time.

    Raises:
        NanotokError: A slice failed; the others are not counted further.
    """
    idle: SimpleQueue[_core.SpanCounts] = SimpleQueue()
    for counter in counters:
        idle.put(counter)
    stop = threading.Event()

    def count(slice_: Slice) -> _CountedSlice:
        reading, counter = SliceReading(slice_, with_document_ids=False), idle.get()
        counting = _Counting(reading=reading, settings=settings, counter=counter)
        try:
            counting.run(stop.is_set)
        finally:
            idle.put(counter)
        entries = tuple(islice(reading.quarantined, MAX_ENTRIES))
        return _CountedSlice(counting.account, reading.documents_in, reading.reasons, entries)

    futures = {pool.submit(count, slice_): slice_ for slice_ in slices}
    num_bytes = 0
    try:
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            num_bytes += futures[future].num_bytes
            if on_slice is not None:
                on_slice(done, num_bytes)
    except BaseException:
        stop.set()  # a slice may be one large file
        pool.shutdown(cancel_futures=True)
        raise
    return [future.result() for future in futures]
