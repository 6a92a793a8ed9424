"""The count file: sorted spans and their counts as Arrow IPC; what it looks like, and writing it.

Rows (hash64, span, count) sorted by (hash64, span), in record batches of equal size, the last
perhaps smaller. The head has the row offsets of 4,096 equal hash ranges, so that any power of two
of ranges can be read without re-partitioning, the bytes of all rows in memory, and what the counts
were made from. Knows neither how spans are counted nor what is learned from them; `count_reader`
reads it.
"""

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.documents.batch import Documents

COUNTS_FORMAT = "nanotok-counts 2"
"""Belongs to the key of every count file: it fixes xxh3_64 with seed 0 as the hash."""

NUM_RANGES = 4096
BATCH_ROWS = 4096
"""Rows of a batch that is written, about 140 kB; readers take any. Who reads many files side by
side holds two of each."""

ROW_BYTES = 24
"""Bytes of a row in memory besides its span: hash, offset, count."""

COMPRESSION = "zstd"
"""Of batches; less than half the bytes for a few percent of the time of counting."""

Run = tuple[
    npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
]
"""Sorted counts: hashes [n], bytes of the spans, their offsets [n + 1], counts [n]."""

COUNTS_FAMILY = b"nanotok-counts "
COUNTS_SCHEMA = pa.schema(
    [("hash64", pa.uint64()), ("span", pa.large_binary()), ("count", pa.uint64())]
)


class CountWriter:
    """Writes one count file from runs of rising hashes: the same rows are the same bytes."""

    def __init__(
        self,
        sink: pa.NativeFile,
        sizes: npt.NDArray[np.int64],
        origin: CountOrigin,
        *,
        span_bytes: int,
    ) -> None:
        """Write the head.

        `sizes` are the rows of each of the 4,096 ranges (`range_sizes`), `span_bytes` the bytes of
        all spans, each once: both are known before any row is written, as the head comes first.
        """
        metadata = {
            "format": COUNTS_FORMAT,
            "ranges": json.dumps([0, *np.cumsum(sizes).tolist()]),
            "bytes": str(ROW_BYTES * int(sizes.sum()) + span_bytes),
            "origin": origin.to_json(),
        }
        options = pa.ipc.IpcWriteOptions(compression=COMPRESSION, use_threads=False)
        schema = COUNTS_SCHEMA.with_metadata(metadata)
        self._writer = pa.ipc.new_file(sink, schema, options=options)
        self._rest: list[Run] = []
        self._rows = 0
        """Rows that do not fill a batch, and their number."""

    def write(self, run: Run) -> None:
        """Append a run; copies of fewer than `BATCH_ROWS` rows are kept for the next batch."""
        start, end = 0, len(run[0])
        while end - start >= BATCH_ROWS - self._rows:
            stop = start + BATCH_ROWS - self._rows
            self._write_batch(_joined([*self._rest, _rows(run, start, stop)]))
            start, self._rest, self._rows = stop, [], 0
        if start < end:
            self._rest.append(_joined([_rows(run, start, end)]))
            self._rows += end - start

    def close(self) -> None:
        """Write what is left, and the end of the file."""
        if self._rest:
            self._write_batch(_joined(self._rest))
        self._writer.close()

    def _write_batch(self, run: Run) -> None:
        """Write arrays of exactly this size: Arrow writes some of what lies behind others."""
        hashes, data, offsets, counts = run
        spans = Documents(data=data, offsets=offsets).to_arrow(as_bytes=True)
        columns = [pa.array(hashes), spans, pa.array(counts)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=COUNTS_SCHEMA))


def pack_counts(run: Run, origin: CountOrigin) -> pa.Buffer:
    """Write a sorted run as the bytes of a count file."""
    sink = pa.BufferOutputStream()
    writer = CountWriter(sink, range_sizes(run[0]), origin, span_bytes=int(run[2][-1] - run[2][0]))
    writer.write(run)
    writer.close()
    return sink.getvalue()


def range_sizes(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Give how many rows lie in each of the 4,096 ranges, for sorted hashes."""
    bounds = np.arange(NUM_RANGES, dtype=np.uint64) << np.uint64(52)
    return np.diff(np.searchsorted(hashes, bounds), append=len(hashes)).astype(np.int64)


def _rows(run: Run, start: int, stop: int) -> Run:
    hashes, data, offsets, counts = run
    return hashes[start:stop], data, offsets[start : stop + 1], counts[start:stop]


def _joined(runs: Sequence[Run]) -> Run:
    spans = Documents.joined([Documents(data=run[1], offsets=run[2]) for run in runs])
    hashes = np.concatenate([run[0] for run in runs])
    return hashes, spans.data, spans.offsets, np.concatenate([run[3] for run in runs])
