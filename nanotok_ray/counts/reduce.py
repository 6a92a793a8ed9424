"""Adds count files: first in groups if there are many, then in bounded memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from math import lcm
from operator import mul

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.count_file import (
    Run,
)
from nanotok_ray.counts.hash_ranges import (
    ALL_HASHES,
    BUFFER_BYTES,
    CountRanges,
    HashPart,
)
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, CountsError, SourceError
from nanotok_ray.formats import SpanTotals, StoredFile, SumRecord, SumSize, key_of
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.storage import Folder, VerifiedFile, arrow_sink

SHARE_UNIT = 1024
"""Weights that result from shares are rounded to multiples of 1 / 1024."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """The factor of the counts of each source.

    >>> sources = [SourceRecipe(name="en", kind="text", paths=("-",)),
    ...            SourceRecipe(name="fi", kind="text", paths=("-",), weight="2.5")]
    >>> weights = Weights.of(sources, text_bytes={"en": 900, "fi": 100})
    >>> weights.unit, weights.multipliers
    (2, {'en': 2, 'fi': 5})
    """

    unit: int
    """The factor of an occurrence of weight 1."""
    multipliers: Mapping[str, int]
    """The factor of the counts of each source: its weight in units."""

    @classmethod
    def of(cls, sources: Sequence[SourceRecipe], *, text_bytes: Mapping[str, int]) -> "Weights":
        """Return the factors of the counted sources.

        A decimal weight is exact. A share relates to the bytes of counted text: with `share:0.3`,
        the weighted text of the source is 0.3 of the whole, apart from rounding. Equal weights
        have no effect; their factors are 1.

        Args:
            sources: the counted sources; all of them have shares, or none has.
            text_bytes: the bytes of counted text of each source, by name.

        Raises:
            SourceError: A source with a share has no text.
        """
        if sources[0].learned_share is not None:
            unit, weights = SHARE_UNIT, _of_shares(sources, text_bytes)
        else:
            exact = {source.name: Fraction(source.weight) for source in sources}
            unit = lcm(*(weight.denominator for weight in exact.values()))
            weights = {name: int(weight * unit) for name, weight in exact.items()}
        if len(set(weights.values())) == 1:
            unit, weights = 1, dict.fromkeys(weights, 1)
        return cls(unit=unit, multipliers=weights)


def _of_shares(sources: Sequence[SourceRecipe], text_bytes: Mapping[str, int]) -> dict[str, int]:
    total = sum(text_bytes.get(source.name, 0) for source in sources)
    weights = {}
    for source in sources:
        size = text_bytes.get(source.name, 0)
        if not size:
            raise SourceError(
                f"source {source.name!r} has weight = {source.weight!r} and no text in its train "
                "split; add texts, or use a weight that is not a share"
            )
        assert source.learned_share is not None
        weight = Fraction(source.learned_share) * total / size
        weights[source.name] = max(1, round(weight * SHARE_UNIT))
    return weights


_BLOCK = 2**20
"""Number of counts that are summed at a time."""

_SAFE = 2.0**62
"""A floating-point estimate below this value guarantees that the sum fits into 64 bits."""


def span_totals(offsets: NDArray[np.int64], counts: NDArray[np.uint64]) -> SpanTotals:
    """Return the sums over spans with `offsets` [n + 1] and `counts` [n].

    >>> offsets, counts = np.array([0, 3, 4]), np.array([2**63, 1], dtype=np.uint64)
    >>> totals = span_totals(offsets, counts)
    >>> totals.spans == 2**63 + 1, totals.span_bytes == 3 * 2**63 + 1, totals.distinct_spans
    (True, True, 2)
    """
    spans = span_bytes = 0
    for start in range(0, len(counts), _BLOCK):
        block = counts[start : start + _BLOCK]
        lengths = np.diff(offsets[start : start + _BLOCK + 1]).astype(np.uint64)
        spans += _product(block, np.ones_like(block))
        span_bytes += _product(block, lengths)
    return SpanTotals(spans=spans, span_bytes=span_bytes, distinct_spans=len(counts))


def _product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """Return the sum of products as an int of any size."""
    if left.astype(np.float64) @ right.astype(np.float64) < _SAFE:
        return int(left @ right)
    return sum(map(mul, left.tolist(), right.tolist()))


OnRead = Callable[[int, int], None]
"""Called after each hash range as (bytes of rows read, bytes of all rows), as in memory."""

_MAX_COUNT = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CountPart:
    """A count file, and the factor of its counts.

    >>> CountPart(url="/counts/a.arrow", weight=0)
    Traceback (most recent call last):
    nanotok_ray.errors.CountsError: the weight of /counts/a.arrow is 0: it must be 1 to 2**64 - 1
    """

    url: str
    """A path or URL."""
    weight: int = 1
    """The factor, at least 1."""

    def __post_init__(self) -> None:
        """Check that the weight is in its range.

        Raises:
            CountsError: The weight is out of its range.
        """
        if not 1 <= self.weight <= _MAX_COUNT:
            raise CountsError(
                f"the weight of {self.url} is {self.weight}: it must be 1 to 2**64 - 1"
            )


SpanBatch = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]
"""The bytes of spans back to back; their offsets [n + 1]; their counts [n]."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SpanSums:
    """All spans of count files, sorted by (hash64, span), with their weighted counts."""

    data: NDArray[np.uint8]
    """The bytes of the spans, back to back."""
    offsets: NDArray[np.int64]
    """The offsets of the spans, of shape (n + 1,)."""
    counts: NDArray[np.uint64]
    """The weighted count of each span, of shape (n,), from which merges are learned."""
    totals: SpanTotals
    """Totals of all spans and of dropped spans, without weights."""

    @property
    def weighted_bytes(self) -> int:
        """The sum of the bytes of each span times its weighted count."""
        return span_totals(self.offsets, self.counts).span_bytes

    def __iter__(self) -> Iterator[SpanBatch]:
        """Yield all spans and counts as one batch; `PartSums` yields several."""
        yield self.data, self.offsets, self.counts


def reduce_counts(
    parts: Sequence[CountPart],
    *,
    min_count: int = 1,
    buffer_bytes: int = BUFFER_BYTES,
    on_progress: OnRead | None = None,
) -> SpanSums:
    """Add count files; the result does not depend on their order or on the slices.

    The memory is at most: for each kept span, 16 bytes and its own bytes; the
    buffer, or two batches (of 140 kB) of each file and an eighth of the buffer if that is more;
    and the head of each file. Each byte of a file is read once.

    Args:
        parts: the files and their weights.
        min_count: spans with a lower sum of counts, before weights, are dropped.
        buffer_bytes: the limit of the rows in memory of all files together.
        on_progress: called after each hash range; an exception in it ends the call.

    Raises:
        CorruptOutputError: A file is damaged or not a count file of this version; the message
            names it.
        CountOverflowError: A plain or weighted sum would exceed 2**64 - 1; the message names the
            span.
        CountsError: `min_count` is out of its range.
        FileNotFoundError: A file does not exist.
    """
    settings = PartSettings(min_count=min_count)
    sums = _sums(parts, settings, buffer_bytes=buffer_bytes, on_progress=on_progress)
    totals = _totals(sums)
    _, data, offsets, counts = sums.take()
    return SpanSums(data=data, offsets=offsets, counts=counts, totals=totals)


def sum_run(urls: Sequence[str]) -> Run:
    """Return the sum of count files, with weight 1, as one run with hashes: 8 more bytes per span.

    Raises:
        CorruptOutputError, CountOverflowError, FileNotFoundError: As for `reduce_counts`.
    """
    parts = [CountPart(url=url) for url in urls]
    settings = PartSettings(min_count=1)
    return _sums(parts, settings, buffer_bytes=BUFFER_BYTES, hashes=True).take()


def _sums(
    parts: Sequence[CountPart],
    settings: "PartSettings",
    *,
    buffer_bytes: int,
    on_progress: OnRead | None = None,
    hashes: bool = False,
) -> _core.RunSums:
    min_count = settings.min_count
    if not 1 <= min_count <= _MAX_COUNT:
        raise CountsError(f"min_count is {min_count}: it must be 1 (keep all) to 2**64 - 1")
    sums = _core.RunSums(min_count=min_count, hashes=hashes)
    weights = [part.weight for part in parts]
    urls = [part.url for part in parts]
    with CountRanges(urls, buffer_bytes=buffer_bytes, part=settings.part) as ranges:
        for number in range(ranges.num_ranges):
            ranges.add(sums, number, weights)
            if on_progress is not None:
                done = ranges.num_bytes * (number + 1) // ranges.num_ranges
                on_progress(done, ranges.num_bytes)
    return sums


def _totals(sums: _core.RunSums) -> SpanTotals:
    (spans, span_bytes, distinct), (dropped, dropped_bytes, dropped_distinct) = sums.totals()
    return SpanTotals(
        spans=spans,
        span_bytes=span_bytes,
        distinct_spans=distinct,
        dropped_spans=dropped,
        dropped_bytes=dropped_bytes,
        dropped_distinct=dropped_distinct,
    )


SUMS_FORMAT = "nanotok-sums 2"
"""Part of the key of the sum of a part."""

SUMS_SCHEMA = pa.schema(
    [("span", pa.large_binary()), ("count", pa.uint64())], metadata={"format": SUMS_FORMAT}
)
SUMS_ROWS = 1 << 18
"""Rows of a batch of the file of a sum."""

PART_BUFFER_BYTES = 128 << 20
"""The buffer of a task: smaller than `BUFFER_BYTES`, since a smaller range is reused in the cache
sooner.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSettings:
    """Settings of the sum of a part of all hashes: all that it depends on besides its files."""

    min_count: int
    part: HashPart = ALL_HASHES


def part_key(keys: Sequence[tuple[str, int]], settings: PartSettings) -> str:
    """Return the key of a sum of count files with these keys and weights."""
    return key_of({"counts": keys, "sum": asdict(settings), "format": SUMS_FORMAT})


def reduce_part(
    parts: Sequence[CountPart], settings: PartSettings, *, folder: Folder, name: str, key: str
) -> SumRecord:
    """Add the spans of one part of all hashes, write `name`.arrow and return its record.

    The file holds spans and their weighted counts as Arrow IPC, in the order of their hashes,
    without the spans below `min_count`. The files of all parts, in order, equal the result of
    `reduce_counts` for all files. They are read once and soon, so they are not compressed.

    Raises:
        CorruptOutputError, CountOverflowError, FileNotFoundError: As for `reduce_counts`.
    """
    sums = _sums(parts, settings, buffer_bytes=PART_BUFFER_BYTES)
    totals = _totals(sums)
    _, data, offsets, counts = sums.take()
    with folder.create(f"{name}.arrow") as file, arrow_sink(file) as sink:
        _write_sums(sink, data, offsets, counts)
    return SumRecord(
        stage="reduce",
        key=key,
        count_files=len(parts),
        totals=totals,
        sum=SumSize(
            spans=len(counts),
            bytes=len(data),
            weighted_bytes=span_totals(offsets, counts).span_bytes,
        ),
        files=(StoredFile(name=f"{name}.arrow", size=file.size, sha256=file.sha256),),
    )


def _write_sums(
    sink: pa.NativeFile,
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    counts: NDArray[np.uint64],
) -> None:
    with pa.ipc.new_file(sink, SUMS_SCHEMA) as writer:
        for start in range(0, len(counts), SUMS_ROWS):
            stop = min(start + SUMS_ROWS, len(counts))
            first, end = int(offsets[start]), int(offsets[stop])
            spans = Documents(data=data[first:end], offsets=offsets[start : stop + 1] - first)
            columns = [spans.to_arrow(as_bytes=True), pa.array(counts[start:stop])]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=SUMS_SCHEMA))


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSums:
    """The sums of all parts in order: the result of `reduce_counts`, in files.

    Iterating yields the spans and weighted counts batch by batch as (data, offsets, counts).

    Raises:
        CorruptOutputError: A file is damaged or does not match its record; the message names it.
        FileNotFoundError: A file does not exist.
    """

    folder: Folder
    records: Sequence[SumRecord]
    """The result of `reduce_part` for each part."""

    @property
    def totals(self) -> SpanTotals:
        """Totals of all spans and of dropped spans, without weights."""
        parts = [record.totals for record in self.records]
        names = [item.name for item in fields(SpanTotals)]
        return SpanTotals(**{name: sum(getattr(part, name) for part in parts) for name in names})

    @property
    def weighted_bytes(self) -> int:
        """The sum of the bytes of each span times its weighted count."""
        return sum(record.sum.weighted_bytes for record in self.records)

    def __iter__(self) -> Iterator[SpanBatch]:
        """Read the files."""
        for record in self.records:
            [file] = record.files
            rows = num_bytes = 0
            with self.folder.open_verified(file.name, sha256=file.sha256) as source:
                for batch in _read_sums(source):
                    rows += len(batch[2])
                    num_bytes += int(batch[1][-1] - batch[1][0])
                    yield batch
            if (rows, num_bytes) != (record.sum.spans, record.sum.bytes):
                raise _damaged(source.name, "it does not hold as many spans as its record says")


_ARROW_START = b"ARROW1\0\0"
"""Begins a file of Arrow IPC; a stream of its schema and batches follows."""


def _read_sums(source: VerifiedFile) -> Iterator[SpanBatch]:
    try:
        if source.read(len(_ARROW_START)) != _ARROW_START:
            raise _damaged(source.name, "it is not an Arrow file")
        reader = pa.ipc.open_stream(source)
        if not reader.schema.equals(SUMS_SCHEMA, check_metadata=True):
            raise _damaged(source.name, "it is of another version")
        for batch in reader:
            batch.validate(full=True)
            spans = Documents.from_arrow(batch.column(0))
            yield spans.data, spans.offsets, batch.column(1).to_numpy()
    except (pa.ArrowException, SourceError) as error:
        raise _damaged(source.name, error) from error


def _damaged(url: str, why: object) -> CorruptOutputError:
    return CorruptOutputError(
        f"{url} cannot be read as sums of counts: {why}; remove it, and run the job again"
    )
