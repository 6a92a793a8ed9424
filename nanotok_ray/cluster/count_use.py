"""Which of the counts in a work folder a recipe would use now; all others are stale to it.

Those are the counts of its plan's slices under its pattern and caps. With max_chars also those of
the slice that is cut, if all slices before it are counted: the code points left for it are in its
key, and only then are they known. And what is merged of these. Removes nothing.
"""

from collections.abc import Mapping, Sequence

from nanotok_ray.cluster.counting import counted_of, finished_counts
from nanotok_ray.cluster.existing import plan_for
from nanotok_ray.cluster.max_chars import cut_of, next_round
from nanotok_ray.cluster.merging import merge_works
from nanotok_ray.cluster.stages import CountWork, MergeWork
from nanotok_ray.cluster.training import Training, training_of
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards.output import Record
from nanotok_ray.storage import Folder


def names_in_use(recipe: Recipe) -> frozenset[str]:
    """Give the names of the counts that `prepare` would use, whether they are there or not.

    Raises:
        SourceError, PlanError: the plan cannot be made, or nothing of it is counted.
    """
    training = training_of(recipe, plan_for(recipe, Folder(recipe.output.path), with_sample=False))
    works = [training.work(each) for each in training.slices]
    known = finished_counts(works)
    summed = _summed(training, works, known)
    merged: list[MergeWork] = []
    if summed is not None:
        records = known | finished_counts([work for work in summed if work.name not in known])
        if all(work.name in records for work in summed):
            merged = merge_works(recipe.output.work, counted_of(summed, records))
    return frozenset(work.name for work in (*works, *(summed or ()), *merged))


def _summed(
    training: Training, works: Sequence[CountWork], known: Mapping[str, Record]
) -> list[CountWork] | None:
    """Give what is summed, with max_chars up to the slice that is cut; None if it is not known."""
    limit = training.recipe.limits.max_chars
    if limit is None:
        return list(works)
    if next_round(works, known, passed_over=(), limit=limit):
        return None
    whole, cut = cut_of(works, known, passed_over=(), limit=limit)
    if cut is not None:
        work, budget = cut
        whole.append(training.work(work.slice, budget=budget))
    return whole
