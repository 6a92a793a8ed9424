"""From a recipe, and the plan made before if there is one, to a plan.

The first plan freezes the split: a file keeps the split it had, and a file added later is train. A
recipe that contradicts the frozen split is refused unless the caller asks for a new one.
"""

from collections.abc import Iterator, Sequence

from nanotok_ray.errors import PlanError, SourceError
from nanotok_ray.manifest import RESERVED_NAMES
from nanotok_ray.plan.cut import group_files
from nanotok_ray.plan.duplicates import duplicate_notes
from nanotok_ray.plan.model import Plan, PlannedSource, Slice
from nanotok_ray.plan.split import SHARED, assign_splits
from nanotok_ray.recipe import LimitsRecipe, Recipe, SourceRecipe
from nanotok_ray.sources import ResolvedSource, SourceFile, check_sample, resolve


def make_plan(
    recipe: Recipe,
    *,
    previous: Plan | None = None,
    resplit: bool = False,
    is_finished: bool = False,
    with_sample: bool = True,
) -> Plan:
    """Resolve the inputs of a recipe and cut them into slices.

    Args:
        recipe: the recipe.
        previous: the plan that froze the splits.
        resplit: assign the splits anew.
        is_finished: whether an output was finished by the previous plan; a source that is read as
            it was is not refused for its first documents.
        with_sample: whether the first documents of each source are read, to see that some can be
            used.

    Raises:
        SourceError: inputs are missing, unreadable or not what the recipe says; of all sources.
        PlanError: the recipe contradicts the frozen split, or two slices would share a name.
    """
    notes: list[str] = []
    frozen = {} if previous is None or resplit else {each.name: each for each in previous.sources}
    slice_bytes = recipe.limits.slice_bytes
    sources: list[PlannedSource] = []
    errors: list[SourceError] = []
    unreadable = 0
    finished = {each.name: each for each in previous.sources} if previous and is_finished else {}
    for source in recipe.sources:
        known = frozen.get(source.name)
        try:
            resolved = resolve(source, written=recipe.output.folders)
            sources.append(
                _plan_source(source, resolved, known, slice_bytes=slice_bytes, notes=notes)
            )
            if with_sample:
                unreadable += resolved.num_unreadable
                former = finished.get(source.name)
                notes += _sample_notes(source, sources[-1], former, limits=recipe.limits)
        except SourceError as error:  # the others may be wrong too, and one run tells it all
            errors.append(error)
    errors += _unreadable_errors(unreadable, notes, limits=recipe.limits)
    if errors:
        raise errors[0] if len(errors) == 1 else SourceError("\n".join(map(str, errors)))
    notes += duplicate_notes(sources)
    plan = Plan(sources=tuple(sources), slice_bytes=slice_bytes, notes=tuple(notes))
    _check_names(plan)
    return plan


def _sample_notes(
    source: SourceRecipe,
    planned: PlannedSource,
    former: PlannedSource | None,
    *,
    limits: LimitsRecipe,
) -> tuple[str, ...]:
    """Read the first documents of a source, and return what a person should know of them."""
    is_accepted = former is not None and _reads_alike(former, planned)
    return check_sample(source, planned.files, limits=limits, is_accepted=is_accepted)


def _reads_alike(former: PlannedSource, now: PlannedSource) -> bool:
    return (former.kind, former.format, former.column) == (now.kind, now.format, now.column)


def _unreadable_errors(
    number: int, notes: Sequence[str], *, limits: LimitsRecipe
) -> Iterator[SourceError]:
    """Yield an error if more files cannot be decoded than the limits allow."""
    if number > limits.max_tails:
        files = "1 file is" if number == 1 else f"{number:,} files are"
        yield SourceError(
            f"{files} not what the name says, and limits.max_tails = {limits.max_tails} allows "
            f"fewer: {'; '.join(notes)}"
        )


def _plan_source(
    source: SourceRecipe,
    resolved: ResolvedSource,
    frozen: PlannedSource | None,
    *,
    slice_bytes: int,
    notes: list[str],
) -> PlannedSource:
    if source.name in RESERVED_NAMES:
        raise PlanError(
            f"a source cannot be named {source.name!r}: the output folder uses that name"
        )
    notes += resolved.notes
    splits = assign_splits(source, resolved.files, frozen, notes)
    return PlannedSource(
        name=source.name,
        kind=source.kind,
        format=resolved.files[0].format,
        column=source.column,
        id_column=source.id_column,
        root=resolved.root,
        rule=source.split,
        files=resolved.files,
        splits=splits,
        slices=_cut_source(source, resolved.files, splits, slice_bytes),
    )


def _cut_source(
    source: SourceRecipe, files: Sequence[SourceFile], splits: Sequence[str], slice_bytes: int
) -> tuple[Slice, ...]:
    slices: list[Slice] = []
    for split in ("train", "val"):
        chosen = [f for f, own in zip(files, splits, strict=True) if own in (split, SHARED)]
        for stem, number, members in group_files(chosen, slice_bytes=slice_bytes):
            slices.append(
                Slice(
                    source=source.name,
                    kind=source.kind,
                    column=source.column,
                    id_column=source.id_column,
                    split=split,
                    share=source.share,
                    number=number,
                    stem=stem,
                    pieces=tuple(piece for _, piece in members),
                    files=tuple(file for file, _ in members),
                )
            )
    return tuple(slices)


def _check_names(plan: Plan) -> None:
    seen: dict[tuple[str, str, str], Slice] = {}
    for each in plan.slices():
        name = (each.source, each.split, each.name_for(each.key))
        if name in seen:
            raise PlanError(
                f"source {each.source!r}: {seen[name].files[0].path} and {each.files[0].path} "
                f"give the same shard name {name[2]}; is one file listed twice?"
            )
        seen[name] = each
