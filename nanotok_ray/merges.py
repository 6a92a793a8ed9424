"""From count files to merges: sum them hash range by hash range, then learn.

Only summed ranges reach the learner, which never sees a document. One process, as the counts of
all distinct spans of a corpus fit one machine long after the corpus does not. Knows neither Ray
nor what a tokenizer is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray import _core
from nanotok_ray.counts import Run, read_range
from nanotok_ray.storage import open_input

Made = tuple[tuple[int, int], bytes, int]
"""The last merge: its pair, the bytes of its token, how often the pair occurred."""

NUM_RANGES = 16
"""Hash ranges in which count files are summed; a power of two."""

REACHED = "vocabulary size reached"
NO_PAIR_LEFT = "no pair left"
BELOW_MIN_PAIR_COUNT = "below min_pair_count"


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """What the learner found."""

    merges: npt.NDArray[np.uint32]
    """[m, 2]: the pair of each merge, in order; merge k makes id 256 + k."""
    counts: npt.NDArray[np.uint64]
    """[m]: how often the pair of each merge occurred when it was merged."""
    applied: npt.NDArray[np.uint64]
    """[m]: how often each pair was merged; by so much the number of tokens fell."""
    stop_reason: str
    """Why learning ended."""
    spans: int
    """How many spans were counted."""
    span_data: npt.NDArray[np.uint8]
    """The bytes of all distinct spans, back to back."""
    span_offsets: npt.NDArray[np.int64]
    """[n + 1]: where each begins, and the end."""
    span_counts: npt.NDArray[np.uint64]
    """[n]: how often each occurs in all files together."""

    @property
    def distinct_spans(self) -> int:
        """How many different spans there are."""
        return len(self.span_counts)


def learn_merges(
    urls: Sequence[str],
    *,
    num_merges: int,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int = 1,
    on_progress: Callable[[int, int, Made | None], None] | None = None,
) -> Learned:
    """Sum count files and learn up to `num_merges` merges from all of them.

    Highest count first; among equals the smallest (left, right). The result depends on the sums
    alone, so neither the order of the files nor how the corpus was sliced can change it.

    Raises:
        CorruptOutputError: a file is not a count file of this version.
        CountOverflowError: a sum would pass 2**64 - 1.
    """
    runs = list(sum_ranges(urls))
    data = np.concatenate([run[1] for run in runs])
    offsets = _joined_offsets(runs)
    counts = np.concatenate([run[3] for run in runs])
    merges, merge_counts, applied, stop_reason = _core.learn(
        data,
        offsets,
        counts,
        num_merges=num_merges,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
        on_progress=on_progress,
    )
    return Learned(
        merges=merges,
        counts=merge_counts,
        applied=applied,
        stop_reason=stop_reason,
        spans=sum(int(count) for count in counts.tolist()),
        span_data=data,
        span_offsets=offsets,
        span_counts=counts,
    )


def sum_ranges(urls: Sequence[str]) -> Iterator[Run]:
    """Give the summed counts of all files, one hash range after the other."""
    for number in range(NUM_RANGES):
        yield _core.merge_runs([_read(url, number) for url in urls])


def _read(url: str, number: int) -> Run:
    with open_input(url) as file:
        return read_range(pa.PythonFile(file), number=number, num_ranges=NUM_RANGES, name=url)


def _joined_offsets(runs: Sequence[Run]) -> npt.NDArray[np.int64]:
    """Give the offsets of the runs' spans in their joined bytes."""
    lengths = [np.diff(run[2]) for run in runs]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(lengths))])
