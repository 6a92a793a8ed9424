"""The count file: sorted spans and their counts as Arrow IPC, and any of its rows back.

Rows (hash64, span, count) sorted by (hash64, span), in record batches of equal size, the last
perhaps smaller. The head has the row offsets of 4,096 equal hash ranges, so that any power of two
of ranges can be read without re-partitioning, and what the counts were made from. Knows neither how
spans are counted nor what is learned from them.
"""

import json
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, CountsError, SourceError, TransientIOError
from nanotok_ray.storage import open_input
from nanotok_ray.storage.urls import local_path

COUNTS_FORMAT = "nanotok-counts 2"
"""Belongs to the key of every count file: it fixes xxh3_64 with seed 0 as the hash."""

NUM_RANGES = 4096
BATCH_ROWS = 4096
"""Rows of a batch that is written, about 140 kB; readers take any. Who reads many files in order
holds a batch of each."""

Run = tuple[
    npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
]
"""Sorted counts: hashes [n], bytes of the spans, their offsets [n + 1], counts [n]."""

_FAMILY = b"nanotok-counts "
_SCHEMA = pa.schema([("hash64", pa.uint64()), ("span", pa.large_binary()), ("count", pa.uint64())])


class CountWriter:
    """Writes one count file from runs of rising hashes: the same rows are the same bytes."""

    def __init__(
        self, sink: pa.NativeFile, sizes: npt.NDArray[np.int64], origin: CountOrigin
    ) -> None:
        """Write the head; `sizes` are the rows of each of the 4,096 ranges (`range_sizes`)."""
        metadata = {
            "format": COUNTS_FORMAT,
            "ranges": json.dumps([0, *np.cumsum(sizes).tolist()]),
            "origin": origin.to_json(),
        }
        self._writer = pa.ipc.new_file(sink, _SCHEMA.with_metadata(metadata))
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
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))


def pack_counts(run: Run, origin: CountOrigin) -> pa.Buffer:
    """Write a sorted run as the bytes of a count file."""
    sink = pa.BufferOutputStream()
    writer = CountWriter(sink, range_sizes(run[0]), origin)
    writer.write(run)
    writer.close()
    return sink.getvalue()


def range_sizes(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Give how many rows lie in each of the 4,096 ranges, for sorted hashes."""
    bounds = np.arange(NUM_RANGES, dtype=np.uint64) << np.uint64(52)
    return np.diff(np.searchsorted(hashes, bounds), append=len(hashes)).astype(np.int64)


class CountReader:
    """An open count file; errors name it."""

    def __init__(self, source: pa.NativeFile, *, name: str) -> None:
        """Read the end of the file; CorruptOutputError if it is no count file of this version."""
        self.name = name
        self._source = source
        try:
            self._reader = pa.ipc.open_file(source)
        except TransientIOError:
            raise
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(error) from error
        self._metadata = self._reader.schema.metadata or {}
        _check_format(self._metadata.get(b"format", b""), name=name)
        if not self._reader.schema.equals(_SCHEMA):
            raise self._damaged(f"its columns are {self._reader.schema.names}")
        self.num_batches: int = self._reader.num_record_batches

    @classmethod
    def open(cls, url: str) -> Self:
        """Open a path or URL.

        Raises:
            CorruptOutputError: not a count file of this version.
            FileNotFoundError: there is no such file.
        """
        path = local_path(url)
        source = pa.PythonFile(open_input(url), mode="r") if path is None else pa.OSFile(path)
        try:
            return cls(source, name=url)
        except BaseException:
            source.close()
            raise

    @property
    def num_bytes(self) -> int:
        """The size of the file."""
        return int(self._source.size())

    def origin(self) -> CountOrigin:
        """Give what the counts were made from.

        Raises:
            CorruptOutputError: it does not say so.
        """
        try:
            return CountOrigin.from_json(self._metadata.get(b"origin", b""), name=self.name)
        except CountsError as error:
            raise CorruptOutputError(str(error)) from error

    def starts(self, num_ranges: int) -> npt.NDArray[np.int64]:
        """Give the first row of each of so many ranges (a power of two up to 4,096), and the end.

        Raises:
            CorruptOutputError: the head does not say it.
        """
        try:
            starts = np.array(json.loads(self._metadata[b"ranges"]), dtype=np.int64)
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            raise self._damaged("its head has no row offsets of ranges") from error
        if starts.shape != (NUM_RANGES + 1,) or starts[0] != 0 or np.any(np.diff(starts) < 0):
            raise self._damaged("the row offsets of ranges in its head make no sense")
        return starts[:: NUM_RANGES // num_ranges].copy()

    def batch(self, number: int) -> pa.RecordBatch:
        """Read one batch.

        Raises:
            CorruptOutputError: there is none, or it is damaged.
        """
        if number >= self.num_batches:
            raise self._damaged("it holds fewer rows than its head says")
        try:
            batch = self._reader.get_batch(number)
            batch.validate()
        except TransientIOError:
            raise
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(error) from error
        return batch

    def run(self, batch: pa.RecordBatch) -> Run:
        """Give rows of a batch as a run, not copied.

        Raises:
            CorruptOutputError: a value is missing.
        """
        try:
            spans = Documents.from_arrow(batch.column(1))
            hashes, counts = batch.column(0).to_numpy(), batch.column(2).to_numpy()
        except (pa.ArrowInvalid, SourceError) as error:
            raise self._damaged(error) from error
        return hashes, spans.data, spans.offsets, counts

    def close(self) -> None:
        """Let go of the file; what was read stays."""
        self._source.close()

    def _damaged(self, why: object) -> CorruptOutputError:
        return CorruptOutputError(f"{self.name} cannot be read as a count file: {why}")


def read_origin(source: pa.NativeFile, *, name: str) -> CountOrigin:
    """Read what the counts of an open count file were made from.

    Raises:
        CorruptOutputError: not a count file of this version.
    """
    return CountReader(source, name=name).origin()


def read_range(source: pa.NativeFile, *, number: int, num_ranges: int, name: str) -> Run:
    """Read one of `num_ranges` (a power of two up to 4,096) hash ranges of an open count file.

    Raises:
        CorruptOutputError: not a count file of this version.
    """
    reader = CountReader(source, name=name)
    first, last = reader.starts(num_ranges)[number : number + 2].tolist()
    if first == last:
        return reader.run(pa.RecordBatch.from_pylist([], schema=_SCHEMA))
    size = max(1, reader.batch(0).num_rows)
    batches = [reader.batch(each) for each in range(first // size, -(-last // size))]
    table = pa.Table.from_batches(batches).slice(first % size, last - first)
    return reader.run(table.combine_chunks().to_batches()[0])


def origins_of(urls: Sequence[str]) -> dict[str, CountOrigin]:
    """Give what the counts of each file were made from, by path or URL.

    Raises:
        CorruptOutputError: a file is not a count file of this version.
        FileNotFoundError: there is no such file.
    """
    origins = {}
    for url in urls:
        reader = CountReader.open(url)
        origins[url] = reader.origin()
        reader.close()
    return origins


def _rows(run: Run, start: int, stop: int) -> Run:
    hashes, data, offsets, counts = run
    return hashes[start:stop], data, offsets[start : stop + 1], counts[start:stop]


def _joined(runs: Sequence[Run]) -> Run:
    spans = Documents.joined([Documents(data=run[1], offsets=run[2]) for run in runs])
    hashes = np.concatenate([run[0] for run in runs])
    return hashes, spans.data, spans.offsets, np.concatenate([run[3] for run in runs])


def _check_format(found: bytes, *, name: str) -> None:
    if found == COUNTS_FORMAT.encode():
        return
    if not found.startswith(_FAMILY):
        raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
    raise CorruptOutputError(
        f"{name} is a count file of format {found.decode(errors='replace')!r}, this nanotok_ray "
        f"reads {COUNTS_FORMAT!r}: count the texts again"
    )
