"""Reading count files: one, or one hash range of many side by side."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.counts.count_file import (
    BATCH_ROWS,
    COUNTS_FAMILY,
    COUNTS_FORMAT,
    COUNTS_SCHEMA,
    NUM_RANGES,
    ROW_BYTES,
    CountProvenance,
    Run,
)
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import (
    CorruptOutputError,
    CountsError,
    SourceError,
    TokenizerError,
    TransientIOError,
)
from nanotok_ray.formats.paths import local_path
from nanotok_ray.storage import open_input

if TYPE_CHECKING:
    from typing_extensions import Self

REMOTE_BLOCK_BYTES = 256 << 10
"""Fetched of a remote count file at a time: hundreds are open side by side."""


class CountReader:
    """An open count file; errors name it."""

    def __init__(self, source: pa.NativeFile, *, name: str) -> None:
        """Read the end of the file; CorruptOutputError if it is no count file of this version."""
        self.name = name
        self._source = source
        try:
            options = pa.ipc.IpcReadOptions(use_threads=False)
            self._reader = pa.ipc.open_file(source, options=options)
        except TransientIOError:
            raise
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(error) from error
        self._metadata = self._reader.schema.metadata or {}
        _check_format(self._metadata.get(b"format", b""), name=name)
        if not self._reader.schema.equals(COUNTS_SCHEMA):
            raise self._damaged(f"its columns are {self._reader.schema.names}")
        self.num_batches: int = self._reader.num_record_batches

    @classmethod
    def open(cls, url: str) -> "Self":
        """Open a path or URL.

        Raises:
            CorruptOutputError: not a count file of this version.
            FileNotFoundError: there is no such file.
        """
        path = local_path(url)
        source = pa.OSFile(path) if path is not None else _remote(url)
        try:
            return cls(source, name=url)
        except BaseException:
            source.close()
            raise

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows in memory.

        Raises:
            CorruptOutputError: the head does not say it.
        """
        value = self._metadata.get(b"bytes")
        if value is None:  # batches are as they are in memory
            return int(self._source.size())
        if not value.isdigit():
            raise self._damaged("the number of bytes in its head makes no sense")
        return int(value)

    def origin(self) -> CountProvenance:
        """Return what the counts were made from.

        Raises:
            CorruptOutputError: it does not say so.
        """
        try:
            return CountProvenance.from_json(self._metadata.get(b"origin", b""), name=self.name)
        except CountsError as error:
            raise CorruptOutputError(str(error)) from error

    def starts(self, num_ranges: int) -> npt.NDArray[np.int64]:
        """Return the first row of each of so many ranges (a power of two up to 4,096), and the end.

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
        """Return rows of a batch as a run, not copied.

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
        """Close the file; what was read stays."""
        self._source.close()

    def _damaged(self, why: object) -> CorruptOutputError:
        return CorruptOutputError(f"{self.name} cannot be read as a count file: {why}")


def _remote(url: str) -> pa.NativeFile:
    return pa.PythonFile(open_input(url, block_bytes=REMOTE_BLOCK_BYTES), mode="r")


def provenances_of(urls: Sequence[str]) -> dict[str, CountProvenance]:
    """Return what the counts of each file were made from, by path or URL.

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


def _check_format(found: bytes, *, name: str) -> None:
    if found == COUNTS_FORMAT.encode():
        return
    if not found.startswith(COUNTS_FAMILY):
        raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
    raise CorruptOutputError(
        f"{name} is a count file of format {found.decode(errors='replace')!r}, this nanotok_ray "
        f"reads {COUNTS_FORMAT!r}: count the texts again"
    )


BUFFER_BYTES = 256 << 20
"""What is read of all files at once by default."""

MAX_OPEN = 256
"""Files that stay open; further ones are opened for each range that is read."""

BATCHES_PER_FILE = 2
"""Held of each file when a range ends in its middle: the batch that it began in, and the next."""

OPEN_BYTES, CLOSED_BYTES = 120_000, 33_000
"""Held besides of a file that stays open and of one that does not: the head, row offsets. Of a
remote file that stays open about 3 blocks (`count_reader`) are held as well, which is not in it."""

_LEAST_SHARE = 8
"""At least an eighth of the buffer is for a range, even if batches of all files fill it."""


class CountCursor:
    """One count file, read from its start to its end."""

    def __init__(self, url: str, *, stays_open: bool) -> None:
        """Open it, and close it again unless it stays open."""
        self.url = url
        self._stays_open = stays_open
        self._reader: CountReader | None = None
        self._starts = np.zeros(0, dtype=np.int64)
        self._batch: pa.RecordBatch | None = None
        self._next = self._used = self._row = 0
        """The next batch; rows given of the one that is held; rows given of all."""
        reader = self._open()
        self.num_bytes = reader.num_bytes
        self.batch_bytes = self.num_bytes // max(1, reader.num_batches)
        self._rest()

    def read(self, number: int, num_ranges: int) -> list[Run]:
        """Return the rows of the next range, which is `number`.

        Raises:
            CorruptOutputError: the file is damaged.
        """
        reader = self._open()
        if not len(self._starts):
            self._starts = reader.starts(num_ranges)
        runs = []
        while self._row < self._starts[number + 1]:
            run = self._take(reader, int(self._starts[number + 1]) - self._row)
            _check_range(run[0], number, num_ranges, name=self.url)
            runs.append(run)
        self._rest()
        return runs

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._batch = None

    def _take(self, reader: CountReader, max_rows: int) -> Run:
        """Return rows of one batch."""
        if self._batch is None:
            self._batch, self._used = reader.batch(self._next), 0
            self._next += 1
        rows = self._batch.slice(self._used, max_rows)
        self._used += len(rows)
        self._row += len(rows)
        if self._used == len(self._batch):
            self._batch = None
        return reader.run(rows)

    def _open(self) -> CountReader:
        if self._reader is None:
            self._reader = CountReader.open(self.url)
        return self._reader

    def _rest(self) -> None:
        if not self._stays_open and self._reader is not None:
            self._reader.close()
            self._reader = None


class CountRanges:
    """The hash ranges of count files; close it, or use it in `with`."""

    def __init__(self, urls: Sequence[str], *, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Open all files, and choose how many ranges there are by their size.

        Raises:
            CorruptOutputError: one is not a count file of this version.
            FileNotFoundError: there is no such file.
        """
        with ExitStack() as opened:
            self._cursors = []
            for number, url in enumerate(urls):
                self._cursors.append(CountCursor(url, stays_open=number < MAX_OPEN))
                opened.callback(self._cursors[-1].close)
            self._opened = opened.pop_all()
        self.num_bytes = sum(cursor.num_bytes for cursor in self._cursors)
        self.num_ranges = _num_ranges(
            self.num_bytes,
            held_bytes=BATCHES_PER_FILE * sum(cursor.batch_bytes for cursor in self._cursors),
            buffer_bytes=buffer_bytes,
        )

    def add(self, sums: _core.RunSums, number: int, weights: Sequence[int]) -> None:
        """Read the range `number`, which must be the next, and add it to sums.

        `weights` are what the counts of each file are multiplied by.

        Raises:
            CorruptOutputError: a file is damaged, or its rows are not sorted; names it.
            CountOverflowError: a sum would pass 2**64 - 1; names the span.
        """
        self._add(sums, number, weights)
        pa.default_memory_pool().release_unused()  # else Arrow keeps for long what it has freed

    def _add(self, sums: _core.RunSums, number: int, weights: Sequence[int]) -> None:
        runs, names, run_weights = [], [], []
        for cursor, weight in zip(self._cursors, weights, strict=True):
            for run in cursor.read(number, self.num_ranges):
                runs.append(run)
                names.append(cursor.url)
                run_weights.append(weight)
        try:
            sums.add(runs, names, run_weights)
        except TokenizerError as error:
            raise CorruptOutputError(
                f"a count file is damaged: {error}; remove it and count its texts again"
            ) from error

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        pa.default_memory_pool().release_unused()


def reading_memory(
    *, num_files: int, buffer_bytes: int = BUFFER_BYTES, span_bytes: int = 10
) -> int:
    """Return the most bytes that reading so many files holds, for spans of so many bytes.

    Two batches of each file are held, as ranges end in their middle; what is left of the buffer,
    and an eighth of it at least, is for the rows of a range.
    """
    batches = BATCHES_PER_FILE * num_files * BATCH_ROWS * (ROW_BYTES + span_bytes)
    opened = min(num_files, MAX_OPEN)
    heads = opened * OPEN_BYTES + (num_files - opened) * CLOSED_BYTES
    return max(buffer_bytes, batches + buffer_bytes // _LEAST_SHARE) + heads


def _num_ranges(num_bytes: int, *, held_bytes: int, buffer_bytes: int) -> int:
    """Return the fewest ranges, a power of two, of which one fits beside the batches."""
    room = max(buffer_bytes - held_bytes, buffer_bytes // _LEAST_SHARE, 1)
    fitting = -(-num_bytes // room)
    return min(NUM_RANGES, 1 << max(0, fitting - 1).bit_length())


def _check_range(
    hashes: npt.NDArray[np.uint64], number: int, num_ranges: int, *, name: str
) -> None:
    """Check that sorted rows lie in a range, as ranges are added up one by one."""
    if not len(hashes):
        return
    ends = (int(hashes[0]) * num_ranges >> 64, int(hashes[-1]) * num_ranges >> 64)
    if ends != (number, number):
        raise CorruptOutputError(
            f"{name} cannot be read as a count file: rows lie in another hash range than its head "
            "says"
        )
