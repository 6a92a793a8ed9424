"""`SpanCounts`: counts of spans that can be added to, merged, saved, loaded and learned from."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.counts.columns import Column, checked_run, columns_of, read_parquet
from nanotok_ray.counts.count_file import (
    CountProvenance,
    Run,
    check_same_spans,
    pack_counts,
    provenances_of,
)
from nanotok_ray.counts.patterns import PATTERNS, SPLIT_PATTERN, default_threads, resolve_pattern
from nanotok_ray.counts.reduce import sum_run
from nanotok_ray.documents import Documents, Nulls, batches_of
from nanotok_ray.errors import CountsError, SourceError, SplitError
from nanotok_ray.recipe import Gaps
from nanotok_ray.storage import Folder, FoundFiles, find_files, open_input

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.documents.texts import Texts


class CountedSpans(ABC):
    """What can be asked of counts."""

    @abstractmethod
    def run(self) -> Run:
        """Return all distinct spans and their counts, sorted by (hash64, span)."""

    @property
    @abstractmethod
    def origin(self) -> CountProvenance:
        """What the counts were made from."""

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write a count file, to a path or URL, whole or not at all.

        >>> import tempfile
        >>> from nanotok_ray import SpanCounts
        >>> counts = SpanCounts.from_counts({"a": 3}, pattern="gpt4")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     counts.save(f"{folder}/a.arrow")
        ...     SpanCounts.load(f"{folder}/a.arrow").most_common()
        [(b'a', 3)]

        Raises:
            OSError: It cannot be written.
            CountOverflowError: A sum would pass 2**64 - 1.
        """
        folder, slash, name = os.fspath(file).rpartition("/")
        with Folder(folder or slash or ".").create(name) as target:
            target.write(pack_counts(self.run(), self.origin))

    def most_common(self, n: int | None = None) -> list[tuple[bytes, int]]:
        """Return the `n` most frequent spans (None: all) and their counts, the highest first.

        Among equals the smallest bytes come first.
        """
        _, data, offsets, counts = self.run()
        spans = Documents(data=data, offsets=offsets)
        rows = most_frequent_rows(spans, counts, max_spans=len(counts) if n is None else n)
        chosen = spans.to_arrow(as_bytes=True).take(rows).to_pylist()
        return list(zip(chosen, counts[rows].tolist(), strict=True))

    @property
    def pattern(self) -> str:
        """The regular expression that cuts texts into spans."""
        return self.origin.pattern

    @property
    def gaps(self) -> int | None:
        """How many spans the pattern did not match; None: unknown, as some are from elsewhere."""
        return self.origin.num_gaps

    @property
    def texts(self) -> int | None:
        """How many texts were counted; None: unknown, as some are from elsewhere."""
        return self.origin.texts

    @property
    def text_bytes(self) -> int:
        """The bytes of all texts; of counts from elsewhere, those of their spans."""
        return self.origin.text_bytes

    @property
    def total(self) -> int:
        """How many spans were counted."""
        return self.origin.spans

    @property
    def num_distinct(self) -> int:
        """How many different spans there are."""
        return len(self.run()[3])

    def __repr__(self) -> str:
        size = f"{self.text_bytes:,} bytes of text"
        return f"<SpanCounts: {self.total:,} spans, {self.num_distinct:,} distinct, {size}>"


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
        """Each has more than twice the rows of the next."""

    def __len__(self) -> int:
        """Return how many runs are kept; 0 if none was ever added."""
        return len(self._runs)

    def add(self, run: "Run") -> None:
        """Add a run; nothing is changed by one that cannot be added.

        Raises:
            CountOverflowError: a sum would pass 2**64 - 1.
        """
        runs = [*self._runs, run]
        while len(runs) > 1 and len(runs[-2][3]) <= 2 * len(runs[-1][3]):
            last = runs.pop()
            runs[-1] = _core.merge_runs([runs[-1], last])
        self._runs = runs

    def run(self, *more: "Run") -> "Run":
        """Merge all runs, and `more` runs that are added, into one, and return it.

        Raises:
            CountOverflowError: a sum would pass 2**64 - 1; nothing is added then.
        """
        if more or len(self._runs) != 1:
            self._runs = [_core.merge_runs([*self._runs, *more])]
        return self._runs[0]


class SpanCounts(CountedSpans):
    r"""How often each span occurs in texts.

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
        """Start empty.

        Args:
            pattern: a regular expression, or a name as "gpt4"; it cuts the texts into spans.
            gaps: text that the pattern does not match is a span of its own, or, with "error", a
                SplitError.
            num_threads: how many count; None: all cores, and one inside a Ray worker. The counts do
                not depend on it.

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
        self._counter = _core.SpanCounts(self._origin.pattern, gaps=gaps)
        self._sums = SummedRuns()
        """What is not in the counter; `_origin` has its spans and gaps, and the texts of both."""

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[bytes, int] | Mapping[str, int] | Iterable[tuple[bytes | str, int]],
        *,
        pattern: str,
        gaps: Gaps = "spans",
    ) -> "Self":
        """Take spans and counts that were made elsewhere; those of a span that comes twice add.

        `pattern` is what cut the texts, which the counts alone cannot say.

        >>> SpanCounts.from_counts([("a", 1), (b"a", 2)], pattern="gpt4").most_common()
        [(b'a', 3)]

        Raises:
            CountsError: A count is not a whole number from 1 to 2**64 - 1, or a span is neither str
                nor bytes, or empty; names the row and the value.
            PatternError, CountOverflowError: As for the class and `merge`.
        """
        pairs = counts.items() if isinstance(counts, Mapping) else counts
        return cls.from_arrow(*columns_of(pairs), pattern=pattern, gaps=gaps)

    @classmethod
    def from_arrow(
        cls, spans: Column, counts: Column, *, pattern: str, gaps: Gaps = "spans"
    ) -> "Self":
        """Take two Arrow columns [n] that were made elsewhere; as `from_counts`.

        `spans` are strings or bytes of any kind, or a dictionary of these; `counts` are of any
        integer type.

        >>> import pyarrow as pa
        >>> spans, numbers = pa.array(["a", "b"]), pa.array([2**40, 3], pa.int64())
        >>> SpanCounts.from_arrow(spans, numbers, pattern="gpt4").total
        1099511627779

        Raises:
            CountsError: As for `from_counts`, or for columns of other types or lengths.
            PatternError, CountOverflowError: As for the class and `merge`.
        """
        made = cls(pattern, gaps=gaps)
        made.add(spans, counts)
        return made

    @classmethod
    def load(cls, *files: str | os.PathLike[str]) -> "Self":
        """Read count files, paths or URLs, at least one, and add them up.

        Held in memory are the sums, and of the files 256 MiB at a time.

        Raises:
            FileNotFoundError: There is no such file.
            CorruptOutputError: It is no count file, or one of another version.
            CountsError: The files were cut in different ways, or with other Unicode tables than
                this build has; or none is named.
            CountOverflowError: A sum would pass 2**64 - 1.
        """
        if not files:
            raise CountsError("no count file is named: pass at least one path or URL")
        urls = [os.fspath(file) for file in files]
        origin = CountProvenance.joined(provenances_of(urls))
        origin.check_unicode(urls[0])
        return cls.of_runs(origin, sum_run(urls))

    @classmethod
    def of_runs(cls, origin: CountProvenance, *runs: Run, num_threads: int | None = None) -> "Self":
        """Add up sorted runs; `origin` says what all of them were made from.

        Raises:
            CountOverflowError: A sum would pass 2**64 - 1.
        """
        made = cls(origin.pattern, gaps=origin.gaps, num_threads=num_threads)
        made._take(origin, *runs)
        return made

    def update(self, texts: "Texts", *, nulls: Nulls = "error", column: str | None = None) -> None:
        """Count the spans of texts, each on its own.

        `texts` and `column` are as for `Tokenizer.encode_batch`; Arrow columns are not copied.
        Bytes that are not UTF-8 are spans, each on its own. A missing text is an error, or, with
        `nulls="empty"`, one without spans. Texts are counted batch by batch: after an error those
        of the batches before it stay counted.

        Raises:
            TypeError: A text is neither str nor bytes, is of the other type than the first, or is
                missing; or `texts` is one text, or nothing that texts come from, or lacks the
                column.
            SourceError: The array holds something else than texts, or a null (and its first row);
                or `nulls` is neither "error" nor "empty".
            SplitError: A text cannot be split, or has a gap and must not; names its number.
            CountOverflowError: A count would pass 2**64 - 1.
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
        """Add two columns as `from_arrow` takes them; what cannot be added changes nothing.

        How many texts they were made from is unknown from then on. Messages call the columns `name`
        and the first row `first_row`.

        Raises:
            CountsError, CountOverflowError: As for `from_arrow`.
        """
        run, text_bytes = checked_run(spans, counts, name=name, first_row=first_row)
        self._sums.add(run)
        self._origin = self._origin.plus(
            texts=None, text_bytes=text_bytes, spans=sum(run[3].tolist()), num_gaps=None
        )

    def merge(self, *others: "SpanCounts") -> None:
        """Add the counts of others, which stay as they are.

        Raises:
            CountsError: They were cut by another pattern or gaps rule; names both values.
            CountOverflowError: A sum would pass 2**64 - 1; nothing is added then.
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

        Hashes [n] uint64, bytes of the spans uint8, their offsets [n + 1] int64, counts [n] uint64.

        Raises:
            CountOverflowError: A sum would pass 2**64 - 1.
        """
        if self._counter.total():
            self._take(self.origin)
        return self._sums.run()

    @property
    def origin(self) -> CountProvenance:
        """What the counts were made from."""
        counter = self._counter
        return self._origin.plus(spans=counter.total(), num_gaps=counter.num_gaps())

    @property
    def num_distinct(self) -> int:
        """How many different spans there are."""
        return len(self.run()[3]) if self._sums else self._counter.num_distinct()

    @property
    def _num_threads(self) -> int:
        return default_threads() if self._threads is None else self._threads

    def __reduce__(self) -> "tuple[Any, ...]":
        return partial(self.of_runs, num_threads=self._threads), (self.origin, self.run())

    def _take(self, origin: CountProvenance, *runs: Run) -> None:
        """Put what is counted, and more, among the sums; the counter is empty again."""
        self._sums.run(self._counter.sorted_run(threads=self._num_threads), *runs)
        self._origin = origin
        self._counter = _core.SpanCounts(origin.pattern, gaps=origin.gaps)


def most_frequent_rows(
    spans: Documents, counts: NDArray[np.uint64], *, max_spans: int
) -> NDArray[np.int64]:
    """Return the rows of up to `max_spans` spans, the highest count first.

    Among spans of one count those with the smallest bytes come first.

    >>> spans = Documents.from_strings(["a", "c", "b", "rare"])
    >>> counts = np.array([2, 5, 5, 1], dtype=np.uint64)
    >>> most_frequent_rows(spans, counts, max_spans=3).tolist()
    [2, 1, 0]
    """
    if max_spans <= 0 or not len(counts):
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(counts >= _least_count(counts, max_spans))
    chosen = spans.to_arrow(as_bytes=True).take(candidates)
    table = pa.table({"count": counts[candidates], "span": chosen})
    keys = [("count", "descending"), ("span", "ascending")]
    order = pc.sort_indices(table, sort_keys=keys)[:max_spans]
    return np.asarray(candidates[order.to_numpy()], dtype=np.int64)


def _least_count(counts: NDArray[np.uint64], max_spans: int) -> int:
    """Return the lowest count that can be among the highest `max_spans`."""
    if len(counts) <= max_spans:
        return 0
    edge = len(counts) - max_spans
    return int(np.partition(counts, edge)[edge])


_ARROW, _PARQUET = b"ARROW1", b"PAR1"
_SUFFIXES = (".arrow", ".parquet")
_KEYED_NAME = re.compile(r"(.*)-[0-9a-f]{16}\.arrow")


@dataclass(frozen=True, kw_only=True, slots=True)
class CountPaths:
    """Files of counts, by kind; each once, sorted by path."""

    count_files: tuple[str, ...]
    parquet: tuple[str, ...]


def find_counts(paths: Iterable[str]) -> CountPaths:
    """Find files of counts: those named, those that globs match, and those below folders.

    Below a folder only `.arrow` and `.parquet` count, so that a job's records, quarantine lists and
    `_SUCCESS` are left out.

    Raises:
        SourceError: A path matches nothing, a folder holds no counts, or a file is neither kind.
        CountsError: A job's folder holds counts of one slice twice.
        TransientIOError: A remote store failed in a way that may pass.
    """
    files = sorted({file for path in paths for file in _chosen(find_files(path), path=path)})
    starts = {file: _start(file) for file in files}
    for file, start in starts.items():
        if not start.startswith((_ARROW, _PARQUET)):
            raise SourceError(
                f"{file} is neither a count file nor parquet: it begins with {start!r}"
            )
    count_files = tuple(file for file in files if starts[file].startswith(_ARROW))
    _check_slices(count_files)
    return CountPaths(
        count_files=count_files, parquet=tuple(file for file in files if file not in count_files)
    )


def load_counts(
    paths: CountPaths,
    *,
    pattern: str | None = None,
    span_column: str = "span",
    count_column: str = "count",
) -> SpanCounts:
    """Add up all files, in bounded memory beside the sums.

    Args:
        paths: what `find_counts` found.
        pattern: a name or a regular expression; a parquet file does not say what cut its spans, so
            it is needed for one. Count files say it, and must say the same.
        span_column: of parquet files: strings, bytes, or a dictionary of these.
        count_column: of parquet files: any integer type.

    Raises:
        CountsError: The pattern is missing or contradicts a count file, or count files each other;
            a span or a count is none (names file, row and value).
        CorruptOutputError: A count file is damaged, or of another version.
        CountOverflowError: A sum would pass 2**64 - 1.
        PatternError: The pattern is unknown or cannot be compiled.
        SourceError: A parquet file cannot be read, or has not these columns.
    """
    asked = None if pattern is None else resolve_pattern(pattern)
    if asked is None and paths.parquet:
        raise CountsError(
            f"{paths.parquet[0]} is parquet, which does not state the pattern that cut its spans: "
            f"pass the pattern (--pattern), one of {', '.join(PATTERNS)} or a regular expression"
        )
    if paths.count_files:
        counts = SpanCounts.load(*paths.count_files)
        if asked not in {None, counts.pattern}:
            raise CountsError(
                f"the pattern is {asked!r}, and {paths.count_files[0]} was made with "
                f"{counts.pattern!r}: omit the pattern, or count the texts again"
            )
    else:
        counts = SpanCounts() if asked is None else SpanCounts(asked)
    for url in paths.parquet:
        for row, spans, numbers in read_parquet(
            url, span_column=span_column, count_column=count_column
        ):
            counts.add(spans, numbers, name=url, first_row=row)
    return counts


def _chosen(found: FoundFiles, *, path: str) -> list[str]:
    files = [file.path for file in found.files]
    if not found.is_folder:
        return files
    chosen = [file for file in files if file.endswith(_SUFFIXES)]
    if not chosen:
        raise SourceError(
            f"{path} holds no counts: none of its {len(files)} files ends in "
            f"{' or '.join(_SUFFIXES)}; pass a file itself if it has another name"
        )
    return chosen


def _start(file: str) -> bytes:
    with open_input(file) as opened:
        return opened.read(len(_ARROW))


def _check_slices(files: Sequence[str]) -> None:
    """Refuse counts of one slice under two keys: a job's folder keeps those of earlier runs."""
    seen: dict[str, str] = {}
    for file in files:
        match = _KEYED_NAME.fullmatch(file)
        if match and (other := seen.setdefault(match[1], file)) != file:
            raise CountsError(
                f"{other} and {file} are counts of one slice, made by runs that counted in "
                "different ways, so its texts would be counted twice: name the files to use"
            )
