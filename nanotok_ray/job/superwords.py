"""Learning of tokens of several words (SuperBPE): two more passes over the texts that were counted.

The first stage is an ordinary training, whose tokenizer is kept in the work folder and encodes the
spans of a looser pattern. One pass counts pairs of adjacent ids, the other the segments of these
spans between pairs that are too rare to be merged, from which the learner continues the tokenizer.
This is exact if the last merge occurs at least as often as a frequent pair (see `count/recount.rs`
of the core), which is checked; otherwise rarer pairs count as frequent, and the segments are
counted again.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.counts import SuperwordCounting
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
from nanotok_ray.job.counting import (
    CountedSlices,
    CountProgress,
    Training,
    counts_stage,
    first_stage,
    training_of,
)
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.frozen_plan import plan_for
from nanotok_ray.job.learned import LearnedOutput
from nanotok_ray.job.reducing import WeightedCounts, merge_first, sum_parts
from nanotok_ray.job.stage import complete
from nanotok_ray.job.work import CountWork, count_work
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import (
    REPORT_NAME,
    LearnedTokenizer,
    Tokenizer,
)
from nanotok_ray.tokenizer.base import Spans, pair_keys

Learn = Callable[[Training, WeightedCounts, Folder], Tokenizer]
"""Learns a tokenizer from sums and writes it to a folder."""

PAIRS_PER_MERGE: Final = 3
"""The number of frequent pairs at first, by the number of merges that are to be learned."""
MORE_PAIRS: Final = 8
"""The factor of the number of frequent pairs if the last merge is too rare."""

T = TypeVar("T")


def learn_superwords(
    training: Training,
    counted: CountedSlices,
    out: Folder,
    runtime: Runtime,
    learn: Learn,
    *,
    recounts: list[tuple[Training, CountedSlices]],
) -> Tokenizer:
    """Learn both stages, and write the tokenizer to the output; requires a session.

    The counts of pairs and segments are appended to `recounts`, so that damaged files can be found.

    Raises:
        SliceError: Slices failed permanently.
        NanotokError: An error of the learner.
    """
    first, folder = first_stage(training), _folder(training)
    known = LearnedOutput.find(first, folder, relearn=True).tokenizer
    if known is None:
        known = learn(first, _summed(first, counted, runtime), folder)
    report = folder.read_bytes(f"{TOKENIZER_FOLDER}/{REPORT_NAME}", limit=MAX_JSON_BYTES)
    learned = LearnedTokenizer(
        tokenizer=known, report=load(TrainingReport, report, name=folder.join(REPORT_NAME))
    )
    counting = _counting(training, folder, known)
    of_pairs = with_min_count(training, 1)
    pairs = _recounted(training, counted, counting, runtime, stage="pairs")
    recounts.append((of_pairs, pairs))
    summed = _summed(of_pairs, pairs, runtime)

    def learn_from(least: int, keys: NDArray[np.uint64]) -> Tokenizer:
        name, data = f"{_PAIRS}{least}.bin", keys.tobytes()
        folder.write_bytes(name, data)
        chosen = replace(counting, pairs=folder.join(name), pairs_sha256=sha256_of(data))
        segments = _recounted(training, counted, chosen, runtime, stage="segments")
        recounts.append((training, segments))
        second = replace(training, first=learned, min_merge_count=least)
        return learn(second, _summed(training, segments, runtime), out)

    return with_frequent_pairs(summed.reduced(), training.num_superword_merges, learn_from)


def with_frequent_pairs(
    pairs: Spans, num_merges: int, learn: Callable[[int, NDArray[np.uint64]], T]
) -> T:
    """Return the result of `learn`, which is called until its last merge is frequent enough.

    Args:
        pairs: the counts of all pairs of adjacent ids.
        num_merges: the number of merges that are to be learned.
        learn: called with the count from which on a pair is frequent, and the sorted keys of the
            frequent pairs; it raises `RarePairsError` if a merge is rarer than that.
    """
    number = PAIRS_PER_MERGE * max(1, num_merges)
    while True:
        least, keys = frequent_pairs(pairs, number)
        try:
            return learn(least, keys)
        except RarePairsError:
            number *= MORE_PAIRS


def frequent_pairs(pairs: Spans, number: int) -> tuple[int, NDArray[np.uint64]]:
    """Return the lowest count of the `number` most frequent pairs, and all pairs with this count.

    If there are fewer pairs, they are all frequent and the count is 1. The pairs are sorted.
    """
    counts = np.concatenate([np.zeros(0, dtype=np.uint64), *(batch[2] for batch in pairs)])
    least = 1
    if len(counts) > number:
        least = max(1, int(np.partition(counts, len(counts) - number)[len(counts) - number]))
    keys = [pair_keys(data)[numbers >= least] for data, _, numbers in pairs]
    return least, np.sort(np.concatenate([np.zeros(0, dtype=np.uint64), *keys]))


_PAIRS: Final = "pairs-"
"""The start of the names of files of frequent pairs, before their lowest count."""


def _folder(training: Training) -> Folder:
    """Return the folder of the first stage, in the work folder."""
    work = Folder(training.recipe.output.work)
    return Folder(work.inside(f"superwords/{first_stage(training).key[:16]}"))


def _counting(training: Training, folder: Folder, first: Tokenizer) -> SuperwordCounting:
    return SuperwordCounting(
        tokenizer=folder.inside(TOKENIZER_FOLDER),
        tokenizer_sha256=first.sha256,
        pattern=training.superword_pattern,
    )


def recounts_in_use(recipe: Recipe) -> frozenset[str]:
    """Return the names of the counts of pairs and segments that `prepare` would use.

    Raises:
        SourceError, PlanError: The plan cannot be made, or none of its slices is counted.
    """
    if recipe.tokenizer.superwords is None:
        return frozenset()
    training = training_of(recipe, plan_for(recipe, Folder(recipe.output.path), with_sample=False))
    progress, folder = CountProgress.of(training), _folder(training)
    known = LearnedOutput.find(first_stage(training), folder, relearn=True).tokenizer
    if known is None or progress.missing():
        return frozenset()
    counting = _counting(training, folder, known)
    chosen = [
        replace(counting, pairs=folder.join(name), pairs_sha256=folder.sha256(name))
        for name in folder.list(_PAIRS)
    ]
    works = progress.selected()
    return frozenset(work.name for each in (counting, *chosen) for work in _recounts(works, each))


def _recounts(works: Iterable[CountWork], counting: SuperwordCounting) -> list[CountWork]:
    """Return the works that count the same texts as pairs or segments."""
    return [replace(work, settings=replace(work.settings, superwords=counting)) for work in works]


def with_min_count(training: Training, min_count: int) -> Training:
    """Return the training with another `min_count`."""
    recipe = training.recipe
    tokenizer = recipe.tokenizer.model_copy(update={"min_count": min_count})
    return replace(training, recipe=recipe.model_copy(update={"tokenizer": tokenizer}))


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
    items = _recounts(counted.items, counting)
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
