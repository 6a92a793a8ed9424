"""Which of the counts in a work folder a recipe would use now; all others are stale to it.

Those are the counts of its plan's slices under its pattern and caps. With max_chars also those of
the slice that is cut, if all slices before it are counted: the code points left for it are in its
key, and only then are they known. Removes nothing.
"""

from collections.abc import Iterator

from nanotok_ray.cluster.counting import finished_counts
from nanotok_ray.cluster.existing import plan_for
from nanotok_ray.cluster.max_chars import cut_of, next_round
from nanotok_ray.cluster.training import Training, training_of
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder


def names_in_use(recipe: Recipe) -> frozenset[str]:
    """Give the names of the counts that `prepare` would use, whether they are there or not.

    Raises:
        SourceError, PlanError: the plan cannot be made, or nothing of it is counted.
    """
    training = training_of(recipe, plan_for(recipe, Folder(recipe.output.path)))
    return frozenset((*(training.work(each).name for each in training.slices), *_cut(training)))


def _cut(training: Training) -> Iterator[str]:
    """Give the name of the counts of the slice in which max_chars is reached, if that is known."""
    limit = training.recipe.limits.max_chars
    if limit is None:
        return
    works = [training.work(each) for each in training.slices]
    known = finished_counts(works)
    if next_round(works, known, passed_over=(), limit=limit):
        return
    _, cut = cut_of(works, known, passed_over=(), limit=limit)
    if cut is not None:
        work, budget = cut
        yield training.work(work.slice, budget=budget).name
