"""Learning of tokens of several words (SuperBPE), exact with all counts.

The first stage is an ordinary training. Its tokenizer encodes the spans of a looser pattern. A pass
over the texts counts pairs of neighbors, and the next one the segments between pairs that are too
rare to be merged. The learner continues the tokenizer from these segments. It is exact if its last
merge occurs at least as often as a frequent pair (see `count/recount.rs` of the core), which is
checked; otherwise rarer pairs count as frequent, and the segments are counted again.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.counts import PartSums, SpanSums, SuperwordCounting
from nanotok_ray.errors import RarePairsError
from nanotok_ray.formats import (
    MAX_JSON_BYTES,
    TOKENIZER_FOLDER,
    CountRecord,
    TrainingReport,
    load,
    sha256_of,
)
from nanotok_ray.job.bad_documents import slice_rules
from nanotok_ray.job.counting import CountedSlices, Training, counts_stage, first_stage
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.learned import LearnedOutput
from nanotok_ray.job.reducing import WeightedCounts, merge_first, sum_parts
from nanotok_ray.job.stage import complete
from nanotok_ray.job.work import count_work
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import REPORT_NAME, LearnedTokenizer, Tokenizer, pair_keys

Learn = Callable[[Training, WeightedCounts, Folder], Tokenizer]
"""Learns a tokenizer from sums and writes it to a folder."""

PAIRS_PER_MERGE: Final = 4
"""The number of frequent pairs at first, by the number of merges that are to be learned."""
MORE_PAIRS: Final = 8
"""The factor of the number of frequent pairs if the last merge is too rare."""


def learn_superwords(
    training: Training, counted: CountedSlices, out: Folder, runtime: Runtime, learn: Learn
) -> Tokenizer:
    """Learn both stages, and write the tokenizer to the output; requires a session.

    Raises:
        SliceError: Slices failed permanently.
        NanotokError: An error of the learner.
    """
    first = first_stage(training)
    folder = Folder(training.recipe.output.work).inside(f"superwords/{first.key[:16]}")
    known = LearnedOutput.find(first, Folder(folder), relearn=True).tokenizer
    if known is None:
        known = learn(first, _summed(first, counted, runtime), Folder(folder))
    report = Folder(folder).read_bytes(f"{TOKENIZER_FOLDER}/{REPORT_NAME}", limit=MAX_JSON_BYTES)
    learned = LearnedTokenizer(
        tokenizer=known, report=load(TrainingReport, report, name=f"{folder}/{REPORT_NAME}")
    )
    counting = SuperwordCounting(
        tokenizer=Folder(folder).inside(TOKENIZER_FOLDER),
        tokenizer_sha256=known.sha256,
        pattern=training.superword_pattern,
    )
    pairs = _recounted(training, counted, counting, runtime, stage="pairs")
    unlimited = replace(_summed(training, pairs, runtime), min_count=1)
    sums, number = unlimited.reduced(), PAIRS_PER_MERGE * training.num_superword_merges
    while True:
        least, keys = frequent_pairs(sums, number)
        name = f"pairs-{least}.bin"
        Folder(folder).write_bytes(name, data := keys.tobytes())
        chosen = replace(counting, pairs=Folder(folder).join(name), pairs_sha256=sha256_of(data))
        segments = _recounted(training, counted, chosen, runtime, stage="segments")
        summed = _summed(training, segments, runtime)
        second = replace(training, first=learned, min_merge_count=least)
        try:
            return learn(second, summed, out)
        except RarePairsError:
            number *= MORE_PAIRS


def _summed(training: Training, counted: CountedSlices, runtime: Runtime) -> WeightedCounts:
    merged = merge_first(training.recipe.output.work, counted, runtime)
    return sum_parts(WeightedCounts.of(training, merged), runtime)


def _recounted(
    training: Training,
    counted: CountedSlices,
    counting: SuperwordCounting,
    runtime: Runtime,
    *,
    stage: str,
) -> CountedSlices:
    """Count the texts of the first stage again, as pairs or segments."""
    items = [
        replace(work, settings=replace(work.settings, superwords=counting))
        for work in counted.items
    ]
    limits = training.recipe.limits.model_copy(update={"max_skipped_slices": 0})
    rules = slice_rules("count", Folder(items[0].work), limits, after=None, skipped=0)
    recounted = counts_stage(stage, items, CountRecord, count_work, rules=rules)
    done = complete(recounted, runtime).stored.done
    return CountedSlices(
        items=tuple(work for work, _ in done),
        records=tuple(record for _, record in done),
        files=tuple((work.slice.source, f"{work.name}.arrow") for work, _ in done),
        keys=tuple(work.key for work, _ in done),
        skipped=counted.skipped,
    )


def frequent_pairs(sums: SpanSums | PartSums, number: int) -> tuple[int, NDArray[np.uint64]]:
    """Return the lowest count of the `number` most frequent pairs, and all pairs with this count.

    If there are fewer pairs, they are all frequent and the count is 1. The pairs are sorted.
    """
    counts = [batch[2].copy() for batch in sums]
    total = sum(map(len, counts))
    least = 1
    if total > number:
        every = np.concatenate(counts)
        least = max(1, int(np.partition(every, total - number)[total - number]))
    keys = [pair_keys(data)[numbers >= least] for data, _, numbers in sums]
    return least, np.sort(np.concatenate(keys)) if keys else np.zeros(0, dtype=np.uint64)
