"""How fast slices are counted and tokenized: as given, as the last run was, or measured here.

Takes a number, the summary of a run, or texts of a plan; gives bytes of text per second. Does not
know what is to be done, nor how many CPUs there are.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.sources import Slice
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.tokenizer import Tokenizer, make_model
from nanotok_ray.tokenizer.merges import learn_run

STAGES = ("count", "tokenize")

SAMPLE_BYTES = 8 << 20
SAMPLE_SECONDS = 1.0
"""Reading the sample ends when it is so large, or has taken so long."""

LEAST_SECONDS = 5.0
"""A stage of the last run that was over sooner says more of its start than of its speed."""

_SAMPLE_SLICES = 16  # of so many at most: those before may hold no text
_SAMPLE_MERGES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Text in a time."""

    bytes_per_second: float
    is_per_cpu: bool
    """Of one CPU, or of all that the run had."""
    told: str
    """Where it comes from, for people."""

    def seconds(self, slices: Sequence[Slice], *, cpus: int) -> float:
        """Estimate the time for slices: no less than for the largest, which one CPU does."""
        if not slices:
            return 0.0
        sizes = [each.num_bytes for each in slices]
        if not self.is_per_cpu:
            return sum(sizes) / self.bytes_per_second
        return max(sum(sizes) / cpus, *sizes) / self.bytes_per_second


def given_rates(megabytes_per_second: float) -> dict[str, Rate]:
    """Take one rate of one CPU for both stages."""
    told = "as given by --rate"
    rate = Rate(bytes_per_second=megabytes_per_second * 1e6, is_per_cpu=True, told=told)
    return dict.fromkeys(STAGES, rate)


def rates_of_run(summary: Mapping[str, Any]) -> dict[str, Rate]:
    """Give the rates of the stages that a run spent time on, from its summary.

    >>> rates_of_run({"stages": {"count": {"seconds": 10.0, "bytes": 50}}})["count"].is_per_cpu
    False
    """
    stages = {name: own for name, own in summary.get("stages", {}).items() if name in STAGES}
    return {
        name: Rate(
            bytes_per_second=own["bytes"] / own["seconds"],
            is_per_cpu=False,
            told="as in the last run, with the CPUs it had",
        )
        for name, own in stages.items()
        if own["bytes"] and own["seconds"] >= LEAST_SECONDS
    }


def measured_rates(
    slices: Sequence[Slice], *, pattern: str, tokenizer: Tokenizer | None
) -> dict[str, Rate]:
    """Read, count and encode the first texts of slices, on one CPU; none if there is no text.

    Without a tokenizer a small one is learned from the counts. Writing is not measured.

    Raises:
        SourceError, TransientIOError: the texts cannot be read.
    """
    start = time.perf_counter()
    batches = list(_sample(slices))
    reading = time.perf_counter() - start
    size = sum(batch.num_bytes for batch in batches)
    if not size:
        return {}
    counts = SpanCounts(pattern, threads=1)
    counting = _timed(counts.update, batches)
    if tokenizer is None:
        merges = learn_run(counts.run(), num_merges=_SAMPLE_MERGES).merges
        tokenizer = Tokenizer(make_model(merges, pattern=pattern, special_tokens=()))
    times = {"count": counting, "tokenize": _timed(tokenizer.encode_documents, batches)}
    told = f"measured on this machine with {size / 1e6:,.2f} MB of its texts"
    return {
        name: Rate(bytes_per_second=size / (reading + seconds), is_per_cpu=True, told=told)
        for name, seconds in times.items()
    }


def _sample(slices: Sequence[Slice]) -> Iterator[Documents]:
    end = time.perf_counter() + SAMPLE_SECONDS
    size = 0
    for each in slices[:_SAMPLE_SLICES]:
        for _, batch in SliceReading(each):
            yield batch.documents
            size += batch.documents.num_bytes
            if size >= SAMPLE_BYTES or time.perf_counter() >= end:
                return
        if time.perf_counter() >= end:
            return


def _timed(work: Callable[[Documents], object], batches: Sequence[Documents]) -> float:
    start = time.perf_counter()
    for batch in batches:
        with suppress(SplitError):  # a job would quarantine the text; the others are enough here
            work(batch)
    return time.perf_counter() - start
