"""The count file: sorted spans and their counts as Arrow IPC, with their provenance.

Files are written in full, and read by batches and hash ranges.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.documents import Documents
from nanotok_ray.errors import (
    CorruptOutputError,
    CountsError,
    NanotokError,
    SourceError,
    TransientIOError,
)
from nanotok_ray.formats import Gaps, Natural, from_values, local_path
from nanotok_ray.storage import attempt, open_input
from nanotok_ray.storage.retries import is_transient, passing_failure

if TYPE_CHECKING:
    from typing_extensions import Self

_HOW = ("pattern", "gaps", "unicode")
"""The fields that determine how texts are split into spans."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountProvenance:
    r"""The texts and the rules from which counts were made.

    >>> provenance = CountProvenance(pattern=r"\w+", texts=2, text_bytes=10, spans=3, num_gaps=0)
    >>> CountProvenance.from_json(provenance.to_json(), name="here") == provenance
    True
    >>> CountProvenance.joined({"a.arrow": provenance, "b.arrow": provenance}).text_bytes
    20
    """

    pattern: str
    """The regular expression that split the texts."""
    gaps: Gaps = "spans"
    """Whether text that the pattern does not match became a span of its own ("spans") or an error.
    """
    unicode: str = _core.UNICODE_VERSION
    """Version of the Unicode tables that define the classes of the pattern."""
    texts: Natural | None
    """Number of counted texts; None: unknown, for counts of another tool."""
    text_bytes: Natural
    """Bytes of the texts; for counts of another tool, bytes of all occurrences of their spans."""
    spans: Natural
    """Occurrences of spans."""
    num_gaps: Natural | None
    """Number of gaps among the spans; None: unknown."""

    @classmethod
    def nothing(cls, *, pattern: str, gaps: Gaps) -> "Self":
        """Return the provenance of empty counts."""
        return cls(pattern=pattern, gaps=gaps, texts=0, text_bytes=0, spans=0, num_gaps=0)

    @classmethod
    def from_json(cls, data: str | bytes, *, name: str) -> "Self":
        """Parse the result of `to_json`.

        Raises:
            CorruptOutputError: The data is invalid; the message begins with `name`.
        """
        try:
            return from_values(cls, json.loads(data), name=name)
        except ValueError as error:
            raise CorruptOutputError(
                f"{name} does not state what it was made from: {error}"
            ) from error

    def to_json(self) -> str:
        """Return all fields as one line of JSON; equal values have equal bytes."""
        return json.dumps(asdict(self), sort_keys=True)

    def plus(
        self,
        *,
        texts: int | None = 0,
        text_bytes: int = 0,
        spans: int = 0,
        num_gaps: int | None = 0,
    ) -> "CountProvenance":
        """Return the provenance of these counts and of more counts of the same rules."""
        more = replace(self, texts=texts, text_bytes=text_bytes, spans=spans, num_gaps=num_gaps)
        return CountProvenance.joined({"these": self, "more": more})

    def check_unicode(self, name: str) -> None:
        """Check that this build splits texts in the same way as for the counts of `name`.

        Raises:
            CountsError: The versions of the Unicode tables differ.
        """
        if self.unicode != _core.UNICODE_VERSION:
            raise CountsError(
                f"{name} was counted with Unicode {self.unicode} and this build has "
                f"{_core.UNICODE_VERSION}, so it would cut texts differently: count the texts "
                "again, or install the nanotok_ray that counted them"
            )

    @classmethod
    def joined(cls, origins: "Mapping[str, CountProvenance]") -> "Self":
        """Return the provenance of the sum of at least one counts, given by name.

        Raises:
            CountsError: The rules of two counts differ; the message names both, and both values.
        """
        (first, one), *others = origins.items()
        for name, other in others:
            check_same_spans(one, other, first=first, second=name)
        parts = list(origins.values())
        return cls(
            pattern=one.pattern,
            gaps=one.gaps,
            unicode=one.unicode,
            texts=_sum([part.texts for part in parts]),
            text_bytes=sum(part.text_bytes for part in parts),
            spans=sum(part.spans for part in parts),
            num_gaps=_sum([part.num_gaps for part in parts]),
        )


def check_same_spans(
    one: CountProvenance, other: CountProvenance, *, first: str, second: str
) -> None:
    """Check that counts of these provenances can be added.

    Raises:
        CountsError: They differ in pattern, rule for gaps or version of Unicode.
    """
    for name in _HOW:
        value, other_value = getattr(one, name), getattr(other, name)
        if value != other_value:
            word = {"gaps": "gaps rule", "unicode": "Unicode version"}.get(name, name)
            raise CountsError(
                f"counts of a different {word} cannot be added: {first} has {value!r}, {second} "
                f"has {other_value!r}; count all texts in the same way"
            )


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


COUNTS_FORMAT = "nanotok-counts 2"
"""Part of the key of every count file; it implies xxh3_64 with seed 0 as the hash."""

NUM_RANGES = 4096
BATCH_ROWS = 4096
"""Rows of a written batch, about 140 kB; readers accept any number. A reader of many files holds
two batches of each.
"""

ROW_BYTES = 24
"""Bytes of a row in memory besides those of its span: hash, offset, count."""

COMPRESSION = "zstd"
"""Compression of batches; it halves the size, and adds a few percent to the time of counting."""

Run = tuple[
    npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]
]
"""Sorted counts: hashes of shape (n,), bytes of the spans, their offsets of shape (n + 1,), counts
of shape (n,).
"""

COUNTS_FAMILY = b"nanotok-counts "
_FIRST_HEAD = 8
"""Where the first copy of the head begins in a file of Arrow IPC."""

COUNTS_SCHEMA = pa.schema(
    [("hash64", pa.uint64()), ("span", pa.large_binary()), ("count", pa.uint64())]
)


class CountWriter:
    """A writer of a count file from runs in the order of hashes. Equal rows make equal bytes."""

    def __init__(
        self,
        sink: pa.NativeFile,
        sizes: npt.NDArray[np.int64],
        origin: CountProvenance,
        *,
        span_bytes: int,
    ) -> None:
        """Write the head.

        `sizes` are the rows of each of the 4,096 ranges (`range_sizes`), and `span_bytes` the
        bytes of all distinct spans. Both must be known in advance, since the head precedes the
        rows.
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
        """Rows that do not fill a batch yet, and their number."""

    def write(self, run: Run) -> None:
        """Append a run; the last rows, if they do not fill a batch, are copied and kept."""
        start, end = 0, len(run[0])
        while end - start >= BATCH_ROWS - self._rows:
            stop = start + BATCH_ROWS - self._rows
            self._write_batch(_joined([*self._rest, _rows(run, start, stop)]))
            start, self._rest, self._rows = stop, [], 0
        if start < end:
            self._rest.append(_joined([_rows(run, start, end)]))
            self._rows += end - start

    def close(self) -> None:
        """Write the remaining rows and the end of the file."""
        if self._rest:
            self._write_batch(_joined(self._rest))
        self._writer.close()

    def _write_batch(self, run: Run) -> None:
        """Write arrays of exact size; Arrow can write bytes after those of a larger buffer."""
        hashes, data, offsets, counts = run
        spans = Documents(data=data, offsets=offsets).to_arrow(as_bytes=True)
        columns = [pa.array(hashes), spans, pa.array(counts)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=COUNTS_SCHEMA))


def pack_counts(run: Run, origin: CountProvenance) -> pa.Buffer:
    """Return the bytes of a count file of a sorted run."""
    sink = pa.BufferOutputStream()
    writer = CountWriter(sink, range_sizes(run[0]), origin, span_bytes=int(run[2][-1] - run[2][0]))
    writer.write(run)
    writer.close()
    return sink.getvalue()


def range_sizes(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the number of rows in each of the 4,096 ranges, for sorted hashes."""
    bounds = np.arange(NUM_RANGES, dtype=np.uint64) << np.uint64(52)
    return np.diff(np.searchsorted(hashes, bounds), append=len(hashes)).astype(np.int64)


def _rows(run: Run, start: int, stop: int) -> Run:
    hashes, data, offsets, counts = run
    return hashes[start:stop], data, offsets[start : stop + 1], counts[start:stop]


def _joined(runs: Sequence[Run]) -> Run:
    spans = Documents.joined([Documents(data=run[1], offsets=run[2]) for run in runs])
    hashes = np.concatenate([run[0] for run in runs])
    return hashes, spans.data, spans.offsets, np.concatenate([run[3] for run in runs])


REMOTE_BLOCK_BYTES = 256 << 10
"""Bytes of a request to a remote count file if hundreds of files are open."""

_MAX_BLOCK = 1 << 20
_ALL_BLOCKS = 64 << 20


def remote_block_bytes(num_files: int) -> int:
    """Return the bytes of a request to each of `num_files` remote count files.

    >>> remote_block_bytes(10) >> 10, remote_block_bytes(100) >> 10, remote_block_bytes(1000) >> 10
    (1024, 655, 256)
    """
    return max(REMOTE_BLOCK_BYTES, min(_MAX_BLOCK, _ALL_BLOCKS // max(1, num_files)))


MAX_SMALL_BYTES = 3 * REMOTE_BLOCK_BYTES
"""A remote count file of up to this size is read by one request; otherwise its end, its head and
its rows would need one request each.
"""


class CountReader:
    """An open count file; errors name it."""

    def __init__(self, source: pa.NativeFile, *, name: str) -> None:
        """Read the end of the file.

        Raises:
            CorruptOutputError: The file is not a count file of this version.
        """
        self.name = name
        self._source = source
        try:
            options = pa.ipc.IpcReadOptions(use_threads=False)
            self._reader = pa.ipc.open_file(source, options=options)
        except TransientIOError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error
        self._metadata = self._reader.schema.metadata or {}
        _check_format(self._metadata.get(b"format", b""), name=name)
        if not self._reader.schema.equals(COUNTS_SCHEMA):
            raise self._damaged("it has other columns")
        self.num_batches: int = self._reader.num_record_batches

    @classmethod
    def open(cls, url: str, *, block_bytes: int = REMOTE_BLOCK_BYTES) -> "Self":
        """Open a path or URL; remote files are read in blocks of `block_bytes`.

        Raises:
            CorruptOutputError: The file is not a count file of this version.
            FileNotFoundError: The file does not exist.
        """
        path = local_path(url)
        if path is not None:
            source = attempt("open", path, lambda: pa.OSFile(path))
        else:
            source = _remote(url, block_bytes)
        try:
            return cls(source, name=url)
        except BaseException:
            source.close()
            raise

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows in memory.

        Raises:
            CorruptOutputError: The head lacks the value.
        """
        value = self._metadata.get(b"bytes")
        if value is None:  # batches are stored as they are in memory
            return int(self._source.size())
        if not value.isdigit():
            raise self._damaged("the number of bytes in its head makes no sense")
        return int(value)

    def origin(self) -> CountProvenance:
        """Return the provenance of the counts.

        Raises:
            CorruptOutputError: The head lacks the provenance.
        """
        return CountProvenance.from_json(self._metadata.get(b"origin", b""), name=self.name)

    def check_head(self) -> None:
        """Compare the two copies of the head, which are before and after the rows.

        Raises:
            CorruptOutputError: They differ.
        """
        try:
            self._source.seek(_FIRST_HEAD)
            schema = pa.ipc.read_schema(pa.ipc.read_message(self._source))
        except TransientIOError:
            raise
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error
        if not schema.equals(self._reader.schema, check_metadata=True):
            raise self._damaged("the two copies of its head differ")

    def starts(self, num_ranges: int) -> npt.NDArray[np.int64]:
        """Return the first row of each range, and the end.

        `num_ranges` is a power of two up to 4,096.

        Raises:
            CorruptOutputError: The head lacks the values.
        """
        try:
            # parsing 4,097 numbers as JSON would take a twentieth of the time of a reduce
            numbers = self._metadata[b"ranges"].removeprefix(b"[").removesuffix(b"]").split(b",")
            step = NUM_RANGES // num_ranges
            starts = np.array([int(number) for number in numbers[::step]], dtype=np.int64)
        except (KeyError, ValueError, OverflowError) as error:
            raise self._damaged("its head has no row offsets of ranges") from error
        if len(numbers) != NUM_RANGES + 1 or starts[0] != 0 or np.any(np.diff(starts) < 0):
            raise self._damaged("the row offsets of ranges in its head make no sense")
        return starts

    def batch(self, number: int) -> pa.RecordBatch:
        """Read one batch.

        Raises:
            CorruptOutputError: The batch does not exist or is damaged.
        """
        if number >= self.num_batches:
            raise self._damaged("it holds fewer rows than its head says")
        try:
            batch = self._reader.get_batch(number)
            batch.validate()
        except TransientIOError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from error
        return batch

    def run(self, batch: pa.RecordBatch) -> Run:
        """Return rows of a batch as a run, without copying.

        Raises:
            CorruptOutputError: A value is missing.
        """
        try:
            spans = Documents.from_arrow(batch.column(1))
            hashes, counts = batch.column(0).to_numpy(), batch.column(2).to_numpy()
        except (pa.ArrowException, SourceError) as error:
            raise self._damaged(error) from error
        return hashes, spans.data, spans.offsets, counts

    def close(self) -> None:
        """Close the file; data that was read stays valid."""
        self._source.close()

    def _damaged(self, why: object) -> NanotokError:
        if isinstance(why, OSError) and is_transient(why):
            return passing_failure("read", self.name, why)
        return damaged_count_file(self.name, why)


def damaged_count_file(name: str, why: object) -> CorruptOutputError:
    """Return the error of a file that cannot be read as a count file."""
    return CorruptOutputError(
        f"{name} cannot be read as a count file: {why}; remove it and count its texts again"
    )


def _remote(url: str, block_bytes: int) -> pa.NativeFile:
    opened = open_input(url, block_bytes=block_bytes, at=-1)
    size = opened.seek(0, io.SEEK_END)
    opened.seek(0)
    if size > MAX_SMALL_BYTES:
        return pa.PythonFile(opened, mode="r")
    with opened:
        return pa.BufferReader(opened.read())


def provenances_of(urls: Sequence[str]) -> dict[str, CountProvenance]:
    """Return the provenance of the counts of each file, by path or URL.

    Raises:
        CorruptOutputError: A file is not a count file of this version.
        FileNotFoundError: A file does not exist.
    """
    origins = {}
    for url in urls:
        reader = CountReader.open(url)
        reader.check_head()
        origins[url] = reader.origin()
        reader.close()
    return origins


def _check_format(value: bytes, *, name: str) -> None:
    if value == COUNTS_FORMAT.encode():
        return
    if not value.startswith(COUNTS_FAMILY):
        raise CorruptOutputError(f"{name} is not a count file of format {COUNTS_FORMAT!r}")
    raise CorruptOutputError(
        f"{name} is a count file of format {value.decode(errors='replace')!r}, this nanotok_ray "
        f"reads {COUNTS_FORMAT!r}: count the texts again"
    )
