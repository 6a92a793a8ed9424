"""Reading count files: one that is open, batch by batch, and what each was made from.

Takes open files, paths or URLs; every error names the file. The rows of a batch are given as they
lie in it. Does not know how files are added up.
"""

import json
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray.count_file import COUNTS_FAMILY, COUNTS_FORMAT, COUNTS_SCHEMA, NUM_RANGES, Run
from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import CorruptOutputError, CountsError, SourceError, TransientIOError
from nanotok_ray.locations import local_path
from nanotok_ray.storage import open_input

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
    def open(cls, url: str) -> Self:
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
        told = self._metadata.get(b"bytes")
        if told is None:  # batches are as they are in memory
            return int(self._source.size())
        if not told.isdigit():
            raise self._damaged("the number of bytes in its head makes no sense")
        return int(told)

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


def _remote(url: str) -> pa.NativeFile:
    return pa.PythonFile(open_input(url, block_bytes=REMOTE_BLOCK_BYTES), mode="r")


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


def _check_format(found: bytes, *, name: str) -> None:
    if found == COUNTS_FORMAT.encode():
        return
    if not found.startswith(COUNTS_FAMILY):
        raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
    raise CorruptOutputError(
        f"{name} is a count file of format {found.decode(errors='replace')!r}, this nanotok_ray "
        f"reads {COUNTS_FORMAT!r}: count the texts again"
    )
