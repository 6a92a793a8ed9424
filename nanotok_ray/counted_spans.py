"""Spans and how often each occurs, to look at and to save, however they were counted.

A subclass says which they are and what they were made from. Does not know how counts are added.
"""

import os
from abc import ABC, abstractmethod

from nanotok_ray.count_file import Run, pack_counts
from nanotok_ray.count_origin import CountOrigin
from nanotok_ray.documents.batch import Documents
from nanotok_ray.frequent_spans import most_frequent_rows
from nanotok_ray.storage import Folder


class CountedSpans(ABC):
    """What can be asked of counts."""

    @abstractmethod
    def run(self) -> Run:
        """Give all spans and their counts, sorted by (hash64, span), none of which comes twice."""

    @property
    @abstractmethod
    def origin(self) -> CountOrigin:
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
        """Give the `n` most frequent spans (None: all) and their counts, the highest first.

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
