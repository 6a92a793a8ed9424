"""Counting: a slice of documents to a count file, and ranges of count files back.

A count file is Arrow IPC with rows (hash64, span, count) sorted by (hash64, span), in record
batches of 65,536 rows, and the row offsets of 4,096 equal hash ranges in its schema, so that any
power of two of ranges can be read without re-partitioning. Knows neither Ray nor how merges are
learned.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray import _core, chat
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, SplitError, TransientIOError
from nanotok_ray.manifest import RECORD_FORMAT, key_of
from nanotok_ray.plan import Slice
from nanotok_ray.quarantine import write_quarantine
from nanotok_ray.recipe import Gaps
from nanotok_ray.slices import SliceReading, split_reason
from nanotok_ray.sources import Batch
from nanotok_ray.storage import Folder

COUNTS_FORMAT = "nanotok-counts 1"
"""Belongs to the key of every count file: it fixes xxh3_64 with seed 0 as the hash."""

NUM_RANGES = 4096
BATCH_ROWS = 65_536

Run = tuple[
    npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
]
"""Sorted counts: hashes [n], bytes of the spans, their offsets [n + 1], counts [n]."""

_SCHEMA = pa.schema([("hash64", pa.uint64()), ("span", pa.large_binary()), ("count", pa.uint64())])


@dataclass(frozen=True, kw_only=True, slots=True)
class CountSettings:
    """What a count file depends on besides its slice."""

    pattern: str
    gaps: Gaps
    """spans or error."""
    doc_cap: int | None = None
    """Code points of a document that are counted; None: all."""
    budget: int | None = None
    """Code points left for this slice under max_chars: counting ends after the document that
    passes it; None: no limit."""

    def key(self, each: Slice) -> str:
        """Give the key of the count file of a slice."""
        own = {**asdict(self), "unicode": _core.UNICODE_VERSION, "format": COUNTS_FORMAT}
        return key_of({"slice": each.key, "counting": own})


def count_slice(
    each: Slice, settings: CountSettings, *, folder: Folder, name: str
) -> dict[str, Any]:
    """Count the spans of a slice, write `name`.arrow and give its record.

    Raises:
        SourceError, TransientIOError: the input cannot be read.
        CountOverflowError: a count would pass 2**64 - 1.
    """
    reading = SliceReading(each)
    counter = _core.SpanCounts(settings.pattern, gaps=settings.gaps)
    account = _Account(budget=settings.budget)
    for piece, batch in reading:
        for index, texts in _texts(reading, piece, batch):
            chosen = account.take(_capped(texts, settings.doc_cap))
            _update(counter, chosen, reading=reading, piece=piece, batch=batch, index=index)
        if account.is_spent:
            break
    run = counter.sorted_run()
    with folder.create(f"{name}.arrow") as file:
        file.write(pack_counts(run))
    files = [{"name": f"{name}.arrow", "size": file.size, "sha256": file.sha256}]
    if reading.quarantined:
        listed = f"{name}.quarantine.jsonl"
        size, sha256 = write_quarantine(folder, reading.quarantined, name=listed)
        files.append({"name": listed, "size": size, "sha256": sha256})
    return {
        "format": RECORD_FORMAT,
        "stage": "count",
        "key": settings.key(each),
        "slice": {"source": each.source, "split": each.split, "number": each.number},
        "read": reading.read,
        "documents": {"in": reading.documents_in, "quarantined": len(reading.quarantined)},
        "quarantined": reading.reasons,
        "texts": account.texts,
        "text_bytes": account.text_bytes,
        "code_points": account.code_points,
        "spans": counter.total(),
        "distinct_spans": counter.num_distinct(),
        "gaps": counter.num_gaps(),
        "files": files,
    }


@dataclass(slots=True)
class _Account:
    """Code points counted so far, and where a budget of them ends."""

    budget: int | None
    texts: int = 0
    text_bytes: int = 0
    code_points: int = 0
    is_spent: bool = False

    def take(self, texts: Documents) -> Documents:
        """Give the leading texts that are still counted; one that passes the budget is the last."""
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
    reading: SliceReading, piece: int, batch: Batch
) -> Iterator[tuple[int | None, Documents]]:
    """Give (index in the batch, texts): a text batch at once, conversations one by one."""
    if reading.slice.kind == "text":
        yield None, batch.documents
        return
    for index in range(len(batch.documents)):
        try:
            texts = chat.message_texts(chat.parse_conversation(batch.documents[index]))
        except chat.MALFORMED as error:
            reading.quarantine(piece, batch, index, reason=chat.reason_of(error))
            continue
        yield index, Documents.from_strings(texts)


def _update(
    counter: _core.SpanCounts,
    texts: Documents,
    *,
    reading: SliceReading,
    piece: int,
    batch: Batch,
    index: int | None,
) -> None:
    """Count texts; those that cannot be split are quarantined, the others of the batch still count.

    An update that fails counts nothing of its call, so a failed batch is counted text by text; the
    texts of one conversation count together or not at all.
    """
    try:
        counter.update(texts.data, texts.offsets)
    except SplitError as error:
        if index is not None or len(texts) == 1:
            reading.quarantine(piece, batch, index or 0, reason=split_reason(error))
            return
        for number in range(len(texts)):
            _update_one(counter, texts, number, reading=reading, piece=piece, batch=batch)


def _update_one(
    counter: _core.SpanCounts,
    texts: Documents,
    number: int,
    *,
    reading: SliceReading,
    piece: int,
    batch: Batch,
) -> None:
    one = texts.take([number])
    try:
        counter.update(one.data, one.offsets)
    except SplitError as error:
        reading.quarantine(piece, batch, number, reason=split_reason(error))


def _capped(texts: Documents, doc_cap: int | None) -> Documents:
    if doc_cap is None:
        return texts
    return Documents.from_arrow(pc.utf8_slice_codeunits(texts.to_arrow(), 0, doc_cap))


def _code_points(texts: Documents) -> npt.NDArray[np.int64]:
    return np.asarray(pc.utf8_length(texts.to_arrow()), dtype=np.int64)


def pack_counts(run: Run) -> pa.Buffer:
    """Write a sorted run as the bytes of a count file."""
    hashes, data, offsets, counts = run
    spans = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(counts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    bounds = np.arange(NUM_RANGES, dtype=np.uint64) << np.uint64(52)
    starts = [*np.searchsorted(hashes, bounds).tolist(), len(hashes)]
    metadata = {"format": COUNTS_FORMAT, "ranges": json.dumps(starts)}
    table = pa.table([pa.array(hashes), spans, pa.array(counts)], schema=_SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata(metadata)) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return sink.getvalue()


def read_range(source: pa.NativeFile, *, number: int, num_ranges: int, name: str) -> Run:
    """Read one of `num_ranges` (a power of two up to 4,096) hash ranges of an open count file.

    Raises:
        CorruptOutputError: not a count file of this version.
    """
    try:
        reader = pa.ipc.open_file(source)
        metadata = reader.schema.metadata or {}
        if metadata.get(b"format") != COUNTS_FORMAT.encode():
            raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
        starts = json.loads(metadata[b"ranges"])
        step = NUM_RANGES // num_ranges
        first, last = starts[number * step], starts[(number + 1) * step]
        batches = range(first // BATCH_ROWS, -(-last // BATCH_ROWS))
        table = pa.Table.from_batches([reader.get_batch(each) for each in batches], reader.schema)
    except TransientIOError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptOutputError(f"{name} cannot be read as a count file: {error}") from error
    own = table.slice(first - (first // BATCH_ROWS) * BATCH_ROWS, last - first).combine_chunks()
    spans = Documents.from_arrow(_one_chunk(own["span"]))
    return (
        _one_chunk(own["hash64"]).to_numpy(),
        spans.data,
        spans.offsets,
        _one_chunk(own["count"]).to_numpy(),
    )


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
