"""What an output folder holds before a job starts, and what differs from it."""

from collections.abc import Iterator, Mapping
from typing import Any

from nanotok_ray.errors import CorruptOutputError, PlanError
from nanotok_ray.formats import (
    MANIFEST_FORMAT,
    MANIFEST_NAME,
    PLAN_NAME,
    TOKENIZER_FOLDER,
    from_json,
)
from nanotok_ray.job.events import Activity, OnEvent, ignore
from nanotok_ray.job.lease import free_number
from nanotok_ray.recipe import OutputRecipe, Recipe
from nanotok_ray.shards import ShardSettings
from nanotok_ray.sources import (
    Plan,
    SourceLoss,
    changes,
    losses,
    make_plan,
    plan_from_json,
    plan_to_json,
    reading_changes,
    slice_changes,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer, open_tokenizer
from nanotok_ray.units import few, quantity

FROZEN, AS_BEFORE, NOT_FROZEN, IN_USE = "frozen", "as before", "not frozen", "in use"


def frozen_bytes(out: Folder) -> bytes | None:
    """Return the stored plan.json, None if there is none."""
    return out.read_bytes(PLAN_NAME) if out.exists(PLAN_NAME) else None


def frozen_plan(out: Folder) -> Plan | None:
    """Return the plan that was frozen before, if there is one.

    Raises:
        CorruptOutputError: it is not a plan of this version.
    """
    return plan_from_json(out.read_bytes(PLAN_NAME)) if out.exists(PLAN_NAME) else None


def plan_for(
    recipe: Recipe,
    out: Folder,
    *,
    resplit: bool = False,
    with_sample: bool = True,
    on_event: OnEvent = ignore,
) -> Plan:
    """Make the plan of a recipe, under the splits that an earlier plan in the output folder froze.

    With a sample the first documents of each source are read, to see that some can be used.
    `on_event` is called as files are opened.

    Raises:
        SourceError, PlanError: as `make_plan`.
    """

    def on_look(name: str, done: int, todo: int) -> None:
        text = f"opening the files of {name}" if todo else f"listing the files of {name}"
        on_event(Activity(text=text, done=done, todo=todo))

    previous = frozen_plan(out)
    return make_plan(
        recipe,
        previous=previous,
        resplit=resplit,
        is_finished=previous is not None and out.exists(MANIFEST_NAME),
        with_sample=with_sample,
        on_look=on_look,
    )


def freeze(plan: Plan, out: Folder) -> str:
    """Write plan.json, so that files added later are train; return what became of it.

    An output that is finished was verified with its own plan, and keeps it until a job begins to
    change it: NOT_FROZEN. An output whose lease somebody holds has that run's plan: IN_USE. A plan
    that was frozen already is AS_BEFORE, any other is FROZEN. This takes no lease: a run that has
    looked at another plan sees that when it begins to change something, and starts over.
    """
    data = plan_to_json(plan)
    if out.exists(PLAN_NAME) and out.read_bytes(PLAN_NAME) == data:
        return AS_BEFORE
    if out.exists(MANIFEST_NAME):
        return NOT_FROZEN
    if free_number(out) is None:
        return IN_USE
    out.write_whole(PLAN_NAME, data)
    return FROZEN


def existing_tokenizer(recipe: Recipe, out: Folder) -> Tokenizer | None:
    """Return the tokenizer that is there: the recipe's, else the one in the output folder."""
    folder = recipe.tokenizer.path
    if folder is None:
        folder = out.join(TOKENIZER_FOLDER)
        if not out.exists(f"{TOKENIZER_FOLDER}/{READABLE_NAME}"):
            return None
    return tokenizer_in(folder, recipe)


def tokenizer_in(folder: str, recipe: Recipe) -> Tokenizer:
    """Load the tokenizer of a folder or a file, with the special tokens that a recipe adds to it.

    Raises:
        TokenizerError, PatternError: as `open_tokenizer`.
    """
    return open_tokenizer(folder).extended(recipe.tokenizer.extend)


LARGEST_LOSS = 0.1
"""A larger share of the files or bytes of a source does not go from an output unasked."""


def plan_changes(before: Plan | None, after: Plan) -> dict[str, Any] | None:
    """Compare with the plan that was frozen before, in plain values; None if there is none."""
    if before is None:
        return None
    slices = slice_changes(before, after)
    return {
        "sources": [change.to_dict() for change in changes(before, after)],
        "reading": [change.to_dict() for change in reading_changes(before, after)],
        "slices": {"same": slices.same, "new": slices.new, "gone": slices.gone},
        "slice_bytes": [before.slice_bytes, after.slice_bytes],
    }


def published_settings(out: Folder) -> Mapping[str, Any]:
    """Return the settings of each source as the manifest has them; empty if there is none."""
    return _published(out, "settings")


def _published(out: Folder, name: str) -> Mapping[str, Any]:
    """Return a table of the manifest; empty if there is none, or it cannot be read."""
    try:
        data = out.read_bytes(MANIFEST_NAME)
        manifest = from_json(data, name=MANIFEST_NAME, expected_format=MANIFEST_FORMAT)
        return dict(manifest[name])
    except (FileNotFoundError, CorruptOutputError, KeyError, TypeError, ValueError):
        return {}


def check_losses(output: OutputRecipe, out: Folder, before: Plan | None, after: Plan) -> None:
    """Refuse to drop from a published output what is gone from its sources, unless asked to.

    Args:
        output: What the recipe allows.
        out: The output folder.
        before: The plan that was frozen in it, None if there is none.
        after: The plan of the recipe.

    Raises:
        PlanError: a source, or more than `LARGEST_LOSS` of one, is gone; or all sources are.
    """
    if before is None or output.replace or not out.exists(MANIFEST_NAME):
        return
    lost = list(losses(before, after))
    totals = _published(out, "totals")
    if lost and len(lost) == len(before.sources) and all(loss.is_whole for loss in lost):
        names = ", ".join(source.name for source in before.sources)
        raise PlanError(
            f"{out.url} is a published output of other inputs: none of the files of its sources "
            f"({names}; {_held(totals, 'all')}) is in this recipe, and a run would replace it, its "
            "tokenizer and its report. Choose another output.path, or pass --replace "
            "(output.replace = true)"
        )
    serious = [loss for loss in lost if loss.share > LARGEST_LOSS]
    if serious and not output.allow_removed:
        summary = "; ".join(_loss_text(loss, totals) for loss in serious)
        raise PlanError(
            f"{summary}. A run would drop their documents from the published output {out.url}. "
            "Restore the files (is a disk, bucket or folder not mounted?), or pass --allow-removed "
            "(output.allow_removed = true)"
        )


def _loss_text(loss: SourceLoss, totals: Mapping[str, Any]) -> str:
    if loss.is_whole:
        held = ", ".join(
            _held(totals, key) for key in totals if key.rpartition("/")[0] == loss.source
        )
        return f"source {loss.source!r} is gone with all its {loss.files:,} files ({held})"
    return (
        f"source {loss.source!r} has lost {len(loss.gone):,} of {loss.files:,} files, "
        f"{loss.gone_bytes / loss.num_bytes:.1%} of its bytes: {few(loss.gone)}"
    )


def _held(totals: Mapping[str, Any], key: str) -> str:
    """Return the text of how much a manifest counts under a key."""
    counts = totals.get(key, {})
    split = "" if key == "all" else f" of {key.rpartition('/')[2]}"
    return (
        f"{quantity(counts['documents']['out'], 'document')}{split}, "
        f"{quantity(counts['tokens'], 'token')}"
        if counts
        else key
    )


def setting_changes(
    before: Mapping[str, Any], settings: Mapping[str, ShardSettings]
) -> Iterator[str]:
    """Yield a line on each setting that is not as it was published; such shards are made again.

    An output that was not finished yields nothing: its records, one by one, decide.
    """
    for name, current in settings.items() if before else ():
        yield from _setting_lines(name, before.get(name), current)


def _setting_lines(name: str, before: object, current: ShardSettings) -> Iterator[str]:
    if not isinstance(before, Mapping):
        yield f"source {name!r} is new"
        return
    for field, value in current.to_dict().items():
        old = before.get(field)
        if old == value:
            continue
        if field == "tokenizer_sha256":
            yield f"source {name!r}: the tokenizer is {value[:16]}, it was {str(old)[:16]}"
        else:
            yield f"source {name!r}: {field} is {value}, it was {old}"
