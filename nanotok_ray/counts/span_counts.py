"""`SpanCounts`: counts of spans that can be updated, merged, saved, loaded and learned from."""

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.columns import Column, checked_run, columns_of
from nanotok_ray.counts.count_file import (
    CountProvenance,
    Run,
    check_same_spans,
    pack_counts,
    provenances_of,
)
from nanotok_ray.counts.patterns import (
    SPLIT_PATTERN,
    default_threads,
    new_counter,
    resolve_pattern,
)
from nanotok_ray.counts.reduce import sum_run
from nanotok_ray.documents import Documents, Nulls, batches_of
from nanotok_ray.errors import CountsError, SplitError
from nanotok_ray.formats import Gaps
from nanotok_ray.storage import Folder
from nanotok_ray.units import quantity

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.documents.texts import Texts


class SummedRuns:
    """The sum of runs.

    >>> from nanotok_ray.counts.columns import checked_run, columns_of
    >>> run, _ = checked_run(*columns_of([("a", 1), ("b", 2)]), name="here", first_row=0)
    >>> sums = SummedRuns()
    >>> sums.add(run), sums.add(run), sorted(sums.run()[3].tolist())
    (None, None, [2, 4])
    """

    def __init__(self) -> None:
        self._runs: list[Run] = []
        """Each run has more than twice the rows of the next one."""

    def __len__(self) -> int:
        """Return the number of stored runs; 0 if none was added."""
        return len(self._runs)

    def add(self, run: "Run") -> None:
        """Add a run; the sum stays unchanged if the run cannot be added.

        Raises:
            CountOverflowError: A sum would exceed 2**64 - 1.
        """
        runs = [*self._runs, run]
        while len(runs) > 1 and len(runs[-2][3]) <= 2 * len(runs[-1][3]):
            last = runs.pop()
            runs[-1] = _core.merge_runs([runs[-1], last])
        self._runs = runs

    def run(self, *more: "Run") -> "Run":
        """Merge all runs and the runs in `more` into one, and return it.

        Raises:
            CountOverflowError: A sum would exceed 2**64 - 1; nothing is added.
        """
        if more or len(self._runs) != 1:
            self._runs = [_core.merge_runs([*self._runs, *more])]
        return self._runs[0]


class SpanCounts:
    r"""The number of occurrences of each span in texts.

    >>> counts = SpanCounts()
    >>> counts.update(["the cat", "the hat"])
    >>> counts.num_distinct, counts.total, counts.texts, counts.text_bytes
    (3, 4, 2, 14)
    >>> more = SpanCounts.from_counts({" cat": 2**40}, pattern="nanochat")
    >>> counts.merge(more)
    >>> counts.most_common(2)
    [(b' cat', 1099511627777), (b'the', 2)]
    """

    def __init__(
        self, pattern: str = SPLIT_PATTERN, *, gaps: Gaps = "spans", num_threads: int | None = None
    ) -> None:
        """Create empty counts.

        Args:
            pattern: a regular expression, or a name such as "gpt4"; it splits the texts into
                spans.
            gaps: "spans" makes a span of text that the pattern does not match; "error" raises a
                SplitError.
            num_threads: the number of threads; None: all cores, but one inside a Ray worker. The
                counts do not depend on it.

        Raises:
            PatternError: The pattern is unknown or cannot be compiled.
            TokenizerError: `gaps` is neither "spans" nor "error".
            CountsError: `num_threads` is less than 1.
        """
        if num_threads is not None and num_threads < 1:
            raise CountsError(
                f"num_threads is {num_threads}: it must be at least 1, or None for all cores"
            )
        self._threads = num_threads
        self._origin = CountProvenance.nothing(pattern=resolve_pattern(pattern), gaps=gaps)
        self._counter = new_counter(self._origin.pattern, gaps=gaps)
        self._sums = SummedRuns()
        """Runs that are not in the counter; `_origin` has their spans and gaps, and the texts of
        both.
        """

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[bytes, int] | Mapping[str, int] | Iterable[tuple[bytes | str, int]],
        *,
        pattern: str,
        gaps: Gaps = "spans",
    ) -> "Self":
        """Return counts from the spans and counts of another tool.

        Counts of the same span are added. `pattern` is the pattern that split the texts.

        >>> SpanCounts.from_counts([("a", 1), (b"a", 2)], pattern="gpt4").most_common()
        [(b'a', 3)]

        Raises:
            CountsError: A count is not a whole number from 1 to 2**64 - 1, or a span is neither
                str nor bytes, or empty; the message names the row and the value.
            PatternError, CountOverflowError: As for the class and `merge`.
        """
        pairs = counts.items() if isinstance(counts, Mapping) else counts
        return cls.from_arrow(*columns_of(pairs), pattern=pattern, gaps=gaps)

    @classmethod
    def from_arrow(
        cls, spans: Column, counts: Column, *, pattern: str, gaps: Gaps = "spans"
    ) -> "Self":
        """Return counts from two Arrow columns of another tool, like `from_counts`.

        `spans` are strings or bytes of any Arrow type, or a dictionary of these; `counts` are of
        any integer type.

        >>> import pyarrow as pa
        >>> spans, numbers = pa.array(["a", "b"]), pa.array([2**40, 3], pa.int64())
        >>> SpanCounts.from_arrow(spans, numbers, pattern="gpt4").total
        1099511627779

        Raises:
            CountsError: As for `from_counts`, or the columns have other types or different
                lengths.
            PatternError, CountOverflowError: As for the class and `merge`.
        """
        made = cls(pattern, gaps=gaps)
        made.add(spans, counts)
        return made

    @classmethod
    def load(cls, *files: str | os.PathLike[str]) -> "Self":
        """Read one or more count files by path or URL, and return their sum.

        The memory is that of the sums and 256 MiB for the files.

        Raises:
            FileNotFoundError: A file does not exist.
            CorruptOutputError: A file is not a count file, or has another version.
            CountsError: The files have different rules, or other Unicode tables than this build;
                or no file is named.
            CountOverflowError: A sum would exceed 2**64 - 1.
        """
        if not files:
            raise CountsError("no count file is named: pass at least one path or URL")
        urls = [os.fspath(file) for file in files]
        origin = CountProvenance.joined(provenances_of(urls))
        origin.check_unicode(urls[0])
        return cls.of_runs(origin, sum_run(urls))

    @classmethod
    def of_runs(cls, origin: CountProvenance, *runs: Run, num_threads: int | None = None) -> "Self":
        """Return the sum of sorted runs; `origin` is the provenance of all of them.

        Raises:
            CountOverflowError: A sum would exceed 2**64 - 1.
        """
        made = cls(origin.pattern, gaps=origin.gaps, num_threads=num_threads)
        made._take(origin, *runs)
        return made

    def update(self, texts: "Texts", *, nulls: Nulls = "error", column: str | None = None) -> None:
        """Count the spans of texts; no span crosses the end of a text.

        `texts` and `column` are those of `Tokenizer.encode_batch`; Arrow columns are not copied.
        Each byte that is not UTF-8 is a span. A missing text is an error, or, with
        `nulls="empty"`, a text without spans. Texts are counted batch by batch: after an error,
        the texts of earlier batches stay counted.

        Raises:
            TypeError: A text is missing, neither str nor bytes, or not of the type of the first
                one; or `texts` is a single text, an unsupported object, or lacks the column.
            SourceError: The array contains values other than texts, or a null (the message names
                its first row); or `nulls` is neither "error" nor "empty".
            SplitError: A text cannot be split, or has a gap and `gaps` is "error"; the message
                names its index.
            CountOverflowError: A count would exceed 2**64 - 1.
        """
        before = 0
        for batch in batches_of(texts, nulls=nulls, column=column):
            try:
                self._counter.update(batch.data, batch.offsets, threads=self._num_threads)
            except SplitError as error:
                message = f"after {before} texts, {error}" if before else str(error)
                raise SplitError(message) from None
            before += len(batch)
            self._origin = self._origin.plus(texts=len(batch), text_bytes=batch.num_bytes)

    def add(
        self, spans: Column, counts: Column, *, name: str = "the columns", first_row: int = 0
    ) -> None:
        """Add two columns like those of `from_arrow`; after an error the counts are unchanged.

        Afterwards the number of texts is unknown. Messages call the columns `name` and number rows
        from `first_row`.

        Raises:
            CountsError, CountOverflowError: As for `from_arrow`.
        """
        run, text_bytes = checked_run(spans, counts, name=name, first_row=first_row)
        self._sums.add(run)
        self._origin = self._origin.plus(
            texts=None, text_bytes=text_bytes, spans=sum(run[3].tolist()), num_gaps=None
        )

    def merge(self, *others: "SpanCounts") -> None:
        """Add the counts of other objects, which are not changed.

        Raises:
            CountsError: The pattern or the rule for gaps differs; the message names both values.
            CountOverflowError: A sum would exceed 2**64 - 1; nothing is added.
        """
        for other in others:
            check_same_spans(self.origin, other.origin, first="this", second="the other")
        runs = [other.run() for other in others]
        origins = [self.origin, *(other.origin for other in others)]
        self._take(
            CountProvenance.joined({str(n): origin for n, origin in enumerate(origins)}), *runs
        )

    def run(self) -> Run:
        """Return all distinct spans and their counts, sorted by (hash64, span).

        The run has the hashes [n] as uint64, the bytes of the spans as uint8, their offsets [n +
        1] as int64 and the counts [n] as uint64.

        Raises:
            CountOverflowError: A sum would exceed 2**64 - 1.
        """
        if self._counter.total():
            self._take(self.origin)
        return self._sums.run()

    @property
    def origin(self) -> CountProvenance:
        """The provenance of the counts."""
        counter = self._counter
        return self._origin.plus(spans=counter.total(), num_gaps=counter.num_gaps())

    @property
    def num_distinct(self) -> int:
        """Number of different spans."""
        return len(self.run()[3]) if self._sums else self._counter.num_distinct()

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write a count file to a path or URL atomically.

        >>> import tempfile
        >>> from nanotok_ray import SpanCounts
        >>> counts = SpanCounts.from_counts({"a": 3}, pattern="gpt4")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     counts.save(f"{folder}/a.arrow")
        ...     SpanCounts.load(f"{folder}/a.arrow").most_common()
        [(b'a', 3)]

        Raises:
            OSError: The file cannot be written.
            CountOverflowError: A sum would exceed 2**64 - 1.
        """
        folder, slash, name = os.fspath(file).rpartition("/")
        with Folder(folder or slash or ".").create(name) as target:
            target.write(pack_counts(self.run(), self.origin))

    def most_common(self, n: int | None = None) -> list[tuple[bytes, int]]:
        """Return the `n` most frequent spans (None: all) and their counts, the highest first.

        Spans with equal counts are in the order of their bytes.
        """
        _, data, offsets, counts = self.run()
        spans = Documents(data=data, offsets=offsets)
        rows = most_frequent_rows(spans, counts, max_spans=len(counts) if n is None else n)
        chosen = spans.to_arrow(as_bytes=True).take(rows).to_pylist()
        return list(zip(chosen, counts[rows].tolist(), strict=True))

    @property
    def pattern(self) -> str:
        """The regular expression that splits texts into spans."""
        return self.origin.pattern

    @property
    def gaps(self) -> int | None:
        """Number of spans that the pattern did not match; None: unknown (another tool's counts)."""
        return self.origin.num_gaps

    @property
    def texts(self) -> int | None:
        """Number of counted texts; None: unknown for counts of another tool."""
        return self.origin.texts

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts; for counts of another tool, of all occurrences of spans."""
        return self.origin.text_bytes

    @property
    def total(self) -> int:
        """Occurrences of all spans."""
        return self.origin.spans

    def __repr__(self) -> str:
        spans, size = quantity(self.total, "span"), quantity(self.text_bytes, "byte")
        return f"<SpanCounts: {spans}, {self.num_distinct:,} distinct, {size} of text>"

    @property
    def _num_threads(self) -> int:
        return default_threads() if self._threads is None else self._threads

    def __reduce__(self) -> "tuple[Any, ...]":
        return partial(self.of_runs, num_threads=self._threads), (self.origin, self.run())

    def _take(self, origin: CountProvenance, *runs: Run) -> None:
        """Move the content of the counter, and the given runs, to the sums."""
        self._sums.run(self._counter.sorted_run(threads=self._num_threads), *runs)
        self._origin = origin
        self._counter = new_counter(origin.pattern, gaps=origin.gaps)


def most_frequent_rows(
    spans: Documents, counts: NDArray[np.uint64], *, max_spans: int
) -> NDArray[np.int64]:
    """Return the indexes of up to `max_spans` spans, the highest count first.

    Spans with equal counts are in the order of their bytes.

    >>> spans = Documents.from_strings(["a", "c", "b", "rare"])
    >>> counts = np.array([2, 5, 5, 1], dtype=np.uint64)
    >>> most_frequent_rows(spans, counts, max_spans=3).tolist()
    [2, 1, 0]
    """
    if max_spans <= 0 or not len(counts):
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(counts >= _min_count(counts, max_spans))
    chosen = spans.to_arrow(as_bytes=True).take(candidates)
    table = pa.table({"count": counts[candidates], "span": chosen})
    keys = [("count", "descending"), ("span", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)[:max_spans]
    return np.asarray(candidates[order.to_numpy()], dtype=np.int64)


def _min_count(counts: NDArray[np.uint64], max_spans: int) -> int:
    """Return the lowest count of the `max_spans` highest counts."""
    if len(counts) <= max_spans:
        return 0
    edge = len(counts) - max_spans
    return int(np.partition(counts, edge)[edge])
