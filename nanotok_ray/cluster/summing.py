"""The count files of all slices to one sum, each source with its weight.

What is summed is compared with what the records say was counted, so that no slice is ever in the
sum twice, or not at all. Does not know what is learned from it.
"""

import time
from dataclasses import dataclass

from nanotok_ray.cluster.counting import CountedSlices
from nanotok_ray.cluster.events import Advanced, OnEvent, StageEnded, StageStarted
from nanotok_ray.cluster.training import Training, counted_sources
from nanotok_ray.counts.reduce import CountPart, Reduced, reduce_counts
from nanotok_ray.counts.totals import Weights
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Summed:
    """What was counted, by what it was multiplied, and the sum."""

    counted: CountedSlices
    weights: Weights
    reduced: Reduced


def sum_counts(training: Training, counted: CountedSlices, *, on_event: OnEvent) -> Summed:
    """Sum the files of what was counted.

    Raises:
        CorruptOutputError: a file is damaged, or the sum is not that of the records.
        CountOverflowError: a sum would pass 2**64 - 1.
        SourceError: a source is to have a share, and has no text.
    """
    sources = counted_sources(training.recipe)
    weights = Weights.of(sources, text_bytes=counted.by_source("text_bytes"))
    folder = Folder(training.recipe.output.work)
    parts = [
        CountPart(url=folder.join(name), weight=weights.multipliers[source])
        for source, name in counted.files
    ]
    on_event(StageStarted(stage="reduce", todo=len(parts), kept=0, num_bytes=0))
    start = time.perf_counter()

    def on_progress(done: int, total: int) -> None:
        files = len(parts) * done // max(total, 1)
        on_event(Advanced(stage="reduce", done=files, todo=len(parts), num_bytes=done))

    reduced = reduce_counts(
        parts, min_count=training.recipe.tokenizer.min_count, on_progress=on_progress
    )
    found, expected = reduced.totals.spans, counted.sum("spans")
    if found != expected:
        raise CorruptOutputError(
            f"the count files in {folder.join('counts')} hold {found:,} spans, their records say "
            f"{expected:,}: remove the folder and run the job again"
        )
    size = sum(record.values["files"][0]["size"] for record in counted.records)
    on_event(StageEnded(stage="reduce", seconds=time.perf_counter() - start, num_bytes=size))
    return Summed(counted=counted, weights=weights, reduced=reduced)
