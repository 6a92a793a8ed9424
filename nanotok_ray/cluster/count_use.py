"""Which of the counts in a work folder a recipe would use now; all others are stale to it.

Those are the counts of its plan's slices under its pattern and caps. With max_chars also those of
the slice that is cut, if all slices before it are counted: the code points left for it are in its
key, and only then are they known. Removes nothing.
"""

from collections.abc import Iterator, Mapping

from nanotok_ray.cluster.existing import plan_for
from nanotok_ray.cluster.training import Training, training_of
from nanotok_ray.kept_counts import KeptCounts, WorkFolder
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder


def names_in_use(recipe: Recipe, work: WorkFolder) -> frozenset[str]:
    """Give the names of the counts that `prepare` would use, whether they are there or not.

    Raises:
        SourceError, PlanError: the plan cannot be made, or nothing of it is counted.
    """
    training = training_of(recipe, plan_for(recipe, Folder(recipe.output.path)))
    kept = {counts.name: counts for counts in work.counts if counts.record is not None}
    return frozenset(
        (*(training.work(each).name for each in training.slices), *_cut(training, kept))
    )


def _cut(training: Training, kept: Mapping[str, KeptCounts]) -> Iterator[str]:
    """Give the name of the counts of the slice in which max_chars is reached, if that is known."""
    left = training.recipe.limits.max_chars
    if left is None:
        return
    for each in training.slices:
        counts = kept.get(training.work(each).name)
        if counts is None:
            return
        code_points = counts.number("code_points")
        if code_points > left:
            yield training.work(each, budget=left).name
            return
        left -= code_points
