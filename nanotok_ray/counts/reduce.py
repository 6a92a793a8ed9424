"""Adding up count files: in groups first where there are many, then in bounded memory."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.count_file import (
    COUNTS_FORMAT,
    NUM_RANGES,
    CountProvenance,
    CountWriter,
    Run,
    provenances_of,
    range_sizes,
)
from nanotok_ray.counts.hash_ranges import (
    ALL_HASHES,
    BUFFER_BYTES,
    CountRanges,
    HashPart,
    reading_memory,
)
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, CountsError, SourceError
from nanotok_ray.formats import RECORD_FORMAT, key_of, local_path
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.storage import Folder, arrow_sink, open_input

if TYPE_CHECKING:
    from typing_extensions import Self


SHARE_UNIT = 1024
"""Weights that come of shares are rounded to a whole number of so many parts of 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """By what the counts of each source are multiplied.

    >>> sources = [SourceRecipe(name="en", kind="text", paths=("-",)),
    ...            SourceRecipe(name="fi", kind="text", paths=("-",), weight="2.5")]
    >>> weights = Weights.of(sources, text_bytes={"en": 900, "fi": 100})
    >>> weights.unit, weights.multipliers
    (2, {'en': 2, 'fi': 5})
    """

    unit: int
    """What a count of weight 1 is multiplied by."""
    multipliers: Mapping[str, int]
    """What each count of a source is multiplied by: its weight in units."""

    @classmethod
    def of(cls, sources: Sequence[SourceRecipe], *, text_bytes: Mapping[str, int]) -> "Weights":
        """Find the multipliers of sources that are counted.

        A decimal is exact. A share is of the bytes of text that were counted: with `share:0.3` the
        weighted text of the source is 0.3 of all, but for rounding. Weights that are all equal
        change nothing and give multipliers of 1.

        Args:
            sources: those that are counted; all of them have shares, or none.
            text_bytes: by name, the bytes of text that were counted.

        Raises:
            SourceError: a source is to be a share of what is learned from, and has no text.
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
"""So many counts are added up at a time."""

_SAFE = 2.0**62
"""A sum below this, to some digits, is one of 64 bits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTotals:
    """Sums over spans: each as often as it occurs, weights left out.

    >>> offsets, counts = np.array([0, 3, 4]), np.array([2**63, 1], dtype=np.uint64)
    >>> totals = SpanTotals.of(offsets, counts)
    >>> totals.spans == 2**63 + 1, totals.span_bytes == 3 * 2**63 + 1, totals.distinct_spans
    (True, True, 2)
    """

    spans: int
    """How many spans there are, dropped ones included."""
    span_bytes: int
    """The bytes of these."""
    distinct_spans: int
    """How many different ones they are."""
    dropped_spans: int = 0
    """How many of the spans were dropped, as they occur too rarely."""
    dropped_bytes: int = 0
    """The bytes of these."""
    dropped_distinct: int = 0
    """How many different ones were dropped."""

    @classmethod
    def of(cls, offsets: NDArray[np.int64], counts: NDArray[np.uint64]) -> "Self":
        """Add up spans that begin at `offsets` [n + 1] and occur `counts` [n] times."""
        spans = span_bytes = 0
        for start in range(0, len(counts), _BLOCK):
            block = counts[start : start + _BLOCK]
            lengths = np.diff(offsets[start : start + _BLOCK + 1]).astype(np.uint64)
            spans += _product(block, np.ones_like(block))
            span_bytes += _product(block, lengths)
        return cls(spans=spans, span_bytes=span_bytes, distinct_spans=len(counts))


def _product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> int:
    """Return the sum of products, without a limit."""
    if left.astype(np.float64) @ right.astype(np.float64) < _SAFE:
        return int(left @ right)
    return sum(map(mul, left.tolist(), right.tolist()))


OnRead = Callable[[int, int], None]
"""Called as (bytes of rows read, bytes of all rows), as in memory, after each hash range."""

SMALL_REST = 48 << 20
"""Bytes of everything else: the interpreter's and Arrow's own, and memory that they free late."""

_MAX_COUNT = 2**64 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CountPart:
    """A count file, and what its counts are multiplied by.

    >>> CountPart(url="/counts/a.arrow", weight=0)
    Traceback (most recent call last):
    nanotok_ray.errors.CountsError: the weight of /counts/a.arrow is 0: it must be 1 to 2**64 - 1
    """

    url: str
    """A path or URL."""
    weight: int = 1
    """1 or more."""

    def __post_init__(self) -> None:
        """Check that the weight is in range.

        Raises:
            CountsError: it is not.
        """
        if not 1 <= self.weight <= _MAX_COUNT:
            raise CountsError(
                f"the weight of {self.url} is {self.weight}: it must be 1 to 2**64 - 1"
            )


SpanBatch = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]
"""The bytes of spans, back to back; [n + 1] where each begins, and the end; [n] their counts."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reduced:
    """All spans of count files, sorted by (hash64, span), and their weighted counts."""

    data: NDArray[np.uint8]
    """The bytes of the spans, back to back."""
    offsets: NDArray[np.int64]
    """[n + 1]: where each begins, and the end."""
    counts: NDArray[np.uint64]
    """[n]: how often each occurs, weighted: what is learned from."""
    totals: SpanTotals
    """How much was read, and how much of it was dropped: plain counts."""

    @property
    def weighted_bytes(self) -> int:
        """The bytes of the spans, each as often as its weighted count says."""
        return SpanTotals.of(self.offsets, self.counts).span_bytes

    def __iter__(self) -> Iterator[SpanBatch]:
        """Yield all spans and counts as one batch, as `PartSums` yields several."""
        yield self.data, self.offsets, self.counts


def reduce_counts(
    parts: Sequence[CountPart],
    *,
    min_count: int = 1,
    buffer_bytes: int = BUFFER_BYTES,
    on_progress: OnRead | None = None,
) -> Reduced:
    """Add up count files; the result depends neither on their order nor on how texts were sliced.

    Held at most (`reduce_memory`): 16 bytes and its own bytes for each span that is kept; the
    buffer, or two batches (of 140 kB) of each file and an eighth of the buffer if that is more; and
    for each file its head. Each byte of a file is read once.

    Args:
        parts: the files, and their weights.
        min_count: drop spans that occur less often in all files together, before weights.
        buffer_bytes: read so much of all files at once.
        on_progress: called after each hash range; what it raises ends the call.

    Raises:
        CorruptOutputError: a file is not a count file of this version, or is damaged; names it.
        CountOverflowError: a sum would pass 2**64 - 1, plain or weighted; names the span.
        CountsError: `min_count` is out of its range.
        FileNotFoundError: there is no such file.
    """
    sums = _sums(parts, min_count, buffer_bytes, on_progress, hashes=False)
    totals = _totals(sums)
    _, data, offsets, counts = sums.take()
    return Reduced(data=data, offsets=offsets, counts=counts, totals=totals)


def sum_run(urls: Sequence[str], *, buffer_bytes: int = BUFFER_BYTES) -> Run:
    """Add up count files, weight 1, as one run with its hashes: 8 bytes more for each span.

    Raises:
        CorruptOutputError, CountOverflowError, FileNotFoundError: as for `reduce_counts`.
    """
    parts = [CountPart(url=url) for url in urls]
    return _sums(parts, 1, buffer_bytes, None, hashes=True).take()


def reduce_memory(
    *, distinct_spans: int, distinct_bytes: int, num_files: int, buffer_bytes: int = BUFFER_BYTES
) -> int:
    """Return the most bytes that `reduce_counts` holds above what the process held before.

    Args:
        distinct_spans: different spans that are kept.
        distinct_bytes: the bytes of these, each once.
        num_files: count files on local disks, of any size, with batches of 4,096 rows.
        buffer_bytes: as in `reduce_counts`.

    >>> reduce_memory(distinct_spans=10**9, distinct_bytes=10**10, num_files=100) // 10**9
    26
    """
    length = -(-distinct_bytes // max(1, distinct_spans))
    reading = reading_memory(num_files=num_files, buffer_bytes=buffer_bytes, span_bytes=length)
    return 16 * distinct_spans + 8 + distinct_bytes + reading + SMALL_REST


def _sums(
    parts: Sequence[CountPart],
    min_count: int,
    buffer_bytes: int,
    on_progress: OnRead | None,
    *,
    hashes: bool,
    part: HashPart = ALL_HASHES,
) -> _core.RunSums:
    if not 1 <= min_count <= _MAX_COUNT:
        raise CountsError(f"min_count is {min_count}: it must be 1 (keep all) to 2**64 - 1")
    sums = _core.RunSums(min_count=min_count, hashes=hashes)
    weights = [count_part.weight for count_part in parts]
    urls = [count_part.url for count_part in parts]
    with CountRanges(urls, buffer_bytes=buffer_bytes, part=part) as ranges:
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
"""Belongs to the key of the sum of a part."""

SUMS_SCHEMA = pa.schema(
    [("span", pa.large_binary()), ("count", pa.uint64())], metadata={"format": SUMS_FORMAT}
)
SUMS_ROWS = 1 << 18
"""Rows of a batch of such a file."""

PART_BUFFER_BYTES = 128 << 20
"""What a task reads at once: half as much memory as of `BUFFER_BYTES` is used again sooner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PartSettings:
    """What the sum of a part of all hashes depends on besides its files."""

    min_count: int
    part: HashPart


def part_key(keys: Sequence[tuple[str, int]], settings: PartSettings) -> str:
    """Return the key of a sum of count files with these keys and weights."""
    return key_of({"counts": keys, "sum": asdict(settings), "format": SUMS_FORMAT})


def reduce_part(
    parts: Sequence[CountPart], settings: PartSettings, *, folder: Folder, name: str, key: str
) -> dict[str, Any]:
    """Add up the spans of one part of all hashes, write `name`.arrow and return its record.

    The file holds spans and their weighted counts as Arrow IPC, in the order of their hashes,
    without the spans that occur too rarely. Those of all parts, one after the other, are what
    `reduce_counts` returns for all files. They are read soon, and once, so they are not compressed.

    Raises:
        CorruptOutputError, CountOverflowError, FileNotFoundError: as for `reduce_counts`.
    """
    sums = _sums(
        parts, settings.min_count, PART_BUFFER_BYTES, None, hashes=False, part=settings.part
    )
    totals = _totals(sums)
    _, data, offsets, counts = sums.take()
    with folder.create(f"{name}.arrow") as file, arrow_sink(file) as sink:
        _write_sums(sink, data, offsets, counts)
    return {
        "format": RECORD_FORMAT,
        "stage": "reduce",
        "key": key,
        "count_files": len(parts),
        "totals": asdict(totals),
        "sum": {
            "spans": len(counts),
            "bytes": len(data),
            "weighted_bytes": SpanTotals.of(offsets, counts).span_bytes,
        },
        "files": [{"name": f"{name}.arrow", "size": file.size, "sha256": file.sha256}],
    }


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
    """The sums of all parts, in their order: what `reduce_counts` returns, in files.

    Iterating yields the spans and weighted counts of a batch after the other, as
    (data, offsets, counts).

    Raises:
        CorruptOutputError: a file is damaged, or is not what its record says; names it.
        FileNotFoundError: there is no such file.
    """

    folder: Folder
    records: Sequence[Mapping[str, Any]]
    """What `reduce_part` returned for each part."""

    @property
    def totals(self) -> SpanTotals:
        """How much was read, and how much of it was dropped: plain counts."""
        parts = [record["totals"] for record in self.records]
        return SpanTotals(**{name: sum(part[name] for part in parts) for name in parts[0]})

    @property
    def weighted_bytes(self) -> int:
        """The bytes of the spans, each as often as its weighted count says."""
        return sum(record["sum"]["weighted_bytes"] for record in self.records)

    def __iter__(self) -> Iterator[SpanBatch]:
        """Read the files."""
        for record in self.records:
            url = self.folder.join(record["files"][0]["name"])
            rows = num_bytes = 0
            for spans, counts in _read_sums(url):
                rows, num_bytes = rows + len(counts), num_bytes + spans.num_bytes
                yield spans.data, spans.offsets, counts
            sums = record["sum"]
            if (rows, num_bytes) != (sums["spans"], sums["bytes"]):
                raise _damaged(url, "it does not hold as many spans as its record says")


def _read_sums(url: str) -> Iterator[tuple[Documents, NDArray[np.uint64]]]:
    path = local_path(url)
    source = pa.memory_map(path) if path is not None else pa.PythonFile(open_input(url), mode="r")
    with source:
        try:
            reader = pa.ipc.open_file(source)
            if not reader.schema.equals(SUMS_SCHEMA, check_metadata=True):
                raise _damaged(url, "it is of another version")
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                yield Documents.from_arrow(batch.column(0)), batch.column(1).to_numpy()
        except (pa.ArrowInvalid, SourceError) as error:
            raise _damaged(url, error) from error


def _damaged(url: str, why: object) -> CorruptOutputError:
    return CorruptOutputError(
        f"{url} cannot be read as sums of counts: {why}; remove it, and run the job again"
    )


TARGET = 64
"""Files of a group, about."""

LONGEST = 4
"""No group has more than so many times the files that are aimed at."""


def merge_groups(keys: Sequence[str], *, target: int = TARGET) -> list[tuple[int, int]]:
    """Return (first, end) of groups of neighbours: about `target` keys, four times that at most.

    A group ends where the hash of a key says so, and a group that is too long is cut again after
    the key with the smallest hash in it. So a key that is added or removed changes the group in
    which it lies, and rarely one beside it.

    >>> merge_groups(["a", "b", "c", "d"], target=1), merge_groups([])
    ([(0, 1), (1, 2), (2, 3), (3, 4)], [])
    """
    hashes = [_core.hash64(key.encode()) for key in keys]
    ends = [number + 1 for number, hash64 in enumerate(hashes) if hash64 % target == 0]
    bounds = sorted({0, *ends, len(keys)})
    groups = pairwise(bounds)
    return [part for group in groups for part in _cut(hashes, *group, max_keys=LONGEST * target)]


def merged_key(keys: Sequence[str]) -> str:
    """Return the key of the count file that is merged from those with these keys."""
    return key_of({"counts": list(keys), "format": COUNTS_FORMAT})


def merge_count_files(
    urls: Sequence[str],
    *,
    keys: Sequence[str],
    folder: Folder,
    name: str,
    buffer_bytes: int = BUFFER_BYTES,
) -> dict[str, Any]:
    """Add up count files of one origin, write `name`.arrow and return its record.

    Held at most: twice the buffer. The files are read twice, as the head of a count file says how
    many rows each hash range has: nothing is put on a disk meanwhile.

    Args:
        urls: the files, at least one.
        keys: the key of each.
        folder: where the merged file goes.
        name: its name there, without `.arrow`.
        buffer_bytes: read so much of all files at once.

    Raises:
        CorruptOutputError: a file is not a count file of this version, or is damaged; names it.
        CountOverflowError: a sum would pass 2**64 - 1; names the span.
        CountsError: the files were cut in different ways.
        FileNotFoundError: there is no such file.
    """
    origin = CountProvenance.joined(provenances_of(urls))
    sizes = np.zeros(NUM_RANGES, dtype=np.int64)
    span_bytes = 0
    for run in _runs(urls, buffer_bytes):
        sizes += range_sizes(run[0])
        span_bytes += len(run[1])
    with folder.create(f"{name}.arrow") as file:
        writer = CountWriter(arrow_sink(file), sizes, origin, span_bytes=span_bytes)
        for run in _runs(urls, buffer_bytes):
            writer.write(run)
        writer.close()
    return {
        "format": RECORD_FORMAT,
        "stage": "merge",
        "key": merged_key(keys),
        "count_files": len(urls),
        "texts": origin.texts,
        "text_bytes": origin.text_bytes,
        "spans": origin.spans,
        "distinct_spans": int(sizes.sum()),
        "gaps": origin.num_gaps,
        "files": [{"name": f"{name}.arrow", "size": file.size, "sha256": file.sha256}],
    }


def _runs(urls: Sequence[str], buffer_bytes: int) -> Iterator[Run]:
    """Yield the sums of one hash range after the other."""
    weights = [1] * len(urls)
    with CountRanges(urls, buffer_bytes=buffer_bytes) as ranges:
        for number in range(ranges.num_ranges):
            sums = _core.RunSums(hashes=True)
            ranges.add(sums, number, weights)
            yield sums.take()


def _cut(
    hashes: Sequence[int], first: int, end: int, *, max_keys: int
) -> Iterator[tuple[int, int]]:
    """Cut a group that is too long, by a rule that sees only what is in it."""
    waiting = [(first, end)]
    while waiting:
        first, end = waiting.pop()
        if end - first <= max_keys:
            yield first, end
            continue
        least = min(range(first, end - 1), key=lambda number: (hashes[number], number))
        waiting += [(least + 1, end), (first, least + 1)]
