"""Reads count files concurrently, one range of hashes after the other, in bounded memory."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.count_file import (
    BATCH_ROWS,
    NUM_RANGES,
    CountReader,
    Run,
    damaged_count_file,
    remote_block_bytes,
)
from nanotok_ray.errors import CorruptOutputError, TokenizerError
from nanotok_ray.formats import local_path

if TYPE_CHECKING:
    from typing_extensions import Self


BUFFER_BYTES = 256 << 20
"""Default limit of the rows in memory of all files together."""

REMOTE_READERS = 64
"""Threads that read remote files: with 30 ms per request, 1,000 files are opened in about 1 s."""

MAX_OPEN = 256
"""Limit of files that stay open; other files are opened again for each range."""

BATCHES_PER_FILE = 2
"""Batches held of each file when a range ends within a batch: that batch and the next."""

MIN_SHARE = 8
"""At least an eighth of the buffer is reserved for a range, even if the batches of all files fill
it.
"""


class CountCursor:
    """A count file that is read from its start to its end."""

    def __init__(self, url: str, *, stays_open: bool, block_bytes: int) -> None:
        """Open the file, and close it again unless it stays open."""
        self.url, self._block_bytes = url, block_bytes
        self._stays_open = stays_open
        self._reader: CountReader | None = None
        self._starts = np.zeros(0, dtype=np.int64)
        self._batch: pa.RecordBatch | None = None
        self._next = self._used = self._row = 0
        """The next batch; the rows used of the current batch; the number of the next row."""
        self._spans: int | None = 0
        """The sum of the counts so far modulo 2**64; None if rows were skipped."""
        reader = self._open()
        self.num_bytes = reader.num_bytes
        self.batch_bytes = self.num_bytes // max(1, reader.num_batches)
        self._rest()

    def read(self, number: int, num_ranges: int) -> list[Run]:
        """Return the rows of the next range, whose number is `number`.

        Raises:
            CorruptOutputError: The file is damaged.
        """
        reader = self._open()
        if not len(self._starts):
            self._starts = reader.starts(num_ranges)
            self._skip(reader, int(self._starts[number]))
        runs = []
        while self._row < self._starts[number + 1]:
            run = self._take(reader, int(self._starts[number + 1]) - self._row)
            _check_range(run[0], number, num_ranges, name=self.url)
            if self._spans is not None:
                self._spans = (self._spans + int(run[3].sum(dtype=np.uint64))) % (1 << 64)
            runs.append(run)
        if self._row == self._starts[-1]:
            self._check_sum(reader)
        self._rest()
        return runs

    def _check_sum(self, reader: CountReader) -> None:
        """Compare the sum of all counts with the head of the file."""
        if self._spans not in {None, reader.origin().spans % (1 << 64)}:
            raise damaged_count_file(self.url, "its counts do not add up to the sum in its head")

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = self._batch = None

    def _skip(self, reader: CountReader, num_rows: int) -> None:
        """Skip rows; batches are skipped without reading if all have the written size."""
        self._spans = self._spans if num_rows == 0 else None
        if reader.num_batches == -(-int(self._starts[-1]) // BATCH_ROWS):
            self._next = num_rows // BATCH_ROWS
            self._row = self._next * BATCH_ROWS
        while self._row < num_rows:
            self._take(reader, num_rows - self._row)

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
            self._reader = CountReader.open(self.url, block_bytes=self._block_bytes)
        return self._reader

    def _rest(self) -> None:
        if not self._stays_open and self._reader is not None:
            self._reader.close()
            self._reader = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HashPart:
    """One of a number of equal parts of all hashes; the number is a power of two up to 4,096."""

    number: int = 0
    num_parts: int = 1


ALL_HASHES = HashPart()


class CountRanges:
    """The hash ranges of count files; close the object, or use it in a `with` statement."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        buffer_bytes: int = BUFFER_BYTES,
        part: HashPart = ALL_HASHES,
    ) -> None:
        """Open all files, and divide the part into a number of ranges according to their sizes.

        Raises:
            CorruptOutputError: A file is not a count file of this version.
            FileNotFoundError: A file does not exist.
        """
        with ExitStack() as opened:
            is_remote = any(local_path(url) is None for url in urls)
            self._map = map
            if is_remote:  # reads wait for the network
                pool = opened.enter_context(ThreadPoolExecutor(max_workers=REMOTE_READERS))
                self._map = pool.map  # type: ignore[assignment]
            self._cursors: list[CountCursor] = []
            block_bytes = remote_block_bytes(len(urls))

            def cursor_of(numbered: tuple[int, str]) -> CountCursor:
                number, url = numbered
                return CountCursor(url, stays_open=number < MAX_OPEN, block_bytes=block_bytes)

            for cursor in self._map(cursor_of, enumerate(urls)):
                self._cursors.append(cursor)
                opened.callback(cursor.close)
            self._opened = opened.pop_all()
        self._part = part
        self.num_bytes = sum(cursor.num_bytes for cursor in self._cursors) // part.num_parts
        ranges = _num_ranges(
            self.num_bytes,
            held_bytes=BATCHES_PER_FILE * sum(cursor.batch_bytes for cursor in self._cursors),
            buffer_bytes=buffer_bytes,
        )
        self.num_ranges = min(ranges, NUM_RANGES // part.num_parts)

    def add(self, sums: _core.RunSums, number: int, weights: Sequence[int]) -> None:
        """Read the range `number`, which must be the next one, and add it to `sums`.

        `weights` are the factors of the counts of each file.

        Raises:
            CorruptOutputError: A file is damaged: it cannot be read, its rows are not sorted, a
                span is repeated or has the count 0, or a hash64 is not that of its span; the
                message names the file.
            CountOverflowError: A sum would exceed 2**64 - 1; the message names the span.
        """
        all_ranges = self.num_ranges * self._part.num_parts
        hash_range = self._part.number * self.num_ranges + number

        def read(cursor: CountCursor) -> list[Run]:
            return cursor.read(hash_range, all_ranges)

        runs, names, run_weights = [], [], []
        runs_of = self._map(read, self._cursors)
        for cursor, weight, cursor_runs in zip(self._cursors, weights, runs_of, strict=True):
            for run in cursor_runs:
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


def _num_ranges(num_bytes: int, *, held_bytes: int, buffer_bytes: int) -> int:
    """Return the smallest power of two of ranges such that a range fits beside the batches."""
    room = max(buffer_bytes - held_bytes, buffer_bytes // MIN_SHARE, 1)
    fitting = -(-num_bytes // room)
    return min(NUM_RANGES, 1 << max(0, fitting - 1).bit_length())


def _check_range(hashes: NDArray[np.uint64], number: int, num_ranges: int, *, name: str) -> None:
    """Check that sorted rows belong to a range, since ranges are summed one by one."""
    if not len(hashes):
        return
    ends = (int(hashes[0]) * num_ranges >> 64, int(hashes[-1]) * num_ranges >> 64)
    if ends != (number, number):
        raise damaged_count_file(name, "the hashes of its rows are outside the range in its header")
