"""The content of an output folder before a job starts, and its differences from the recipe."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError, PlanError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_PLAN_BYTES,
    PLAN_NAME,
    TOKENIZER_FOLDER,
    Manifest,
    ShardSettings,
    Totals,
    read_manifest,
    to_values,
)
from nanotok_ray.job.events import Activity, OnEvent, ignore
from nanotok_ray.job.lease import free_number
from nanotok_ray.recipe import OutputRecipe, Recipe
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
from nanotok_ray.storage import Checksums, Folder, write_checked
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer, open_tokenizer
from nanotok_ray.units import few, quantity

FROZEN, AS_BEFORE, NOT_FROZEN, IN_USE = "frozen", "as before", "not frozen", "in use"


def frozen_bytes(out: Folder) -> bytes | None:
    """Return the stored plan.json, or None if there is none.

    Raises:
        CorruptOutputError: The file is damaged: it has another checksum than when it was written,
            or without a checksum, another one than the manifest says.
    """
    if not out.exists(PLAN_NAME):
        return None
    data = out.read_bytes(PLAN_NAME, limit=MAX_PLAN_BYTES)
    sha256, checksums = hashlib.sha256(data).hexdigest(), Checksums.of(out, [PLAN_NAME])
    if PLAN_NAME in checksums.names:
        is_same, other = checksums.are_of(PLAN_NAME, sha256), ""
    else:
        is_same = _published_plan(out) in {None, sha256}
        other = f", or {MANIFEST_NAME} is"
    if not is_same:
        plan_from_json(data)  # raises a better error for a plan of another version
        raise CorruptOutputError(
            f"{out.join(PLAN_NAME)} is damaged{other}: its bytes are not those that were written. "
            "Restore it from a backup. Without one, remove both files: the job then makes a new "
            "plan, and splits its sources as in a new output"
        )
    return data


def _published_plan(out: Folder) -> str | None:
    """Return the sha256 of the plan that the manifest names, or None without a manifest."""
    manifest = published(out)
    return None if manifest is None else manifest.plan_sha256


def frozen_plan(out: Folder) -> Plan | None:
    """Return the frozen plan of the output, or None if there is none.

    Raises:
        CorruptOutputError: plan.json is not a plan of this version.
    """
    data = frozen_bytes(out)
    return None if data is None else plan_from_json(data)


def plan_for(
    recipe: Recipe,
    out: Folder,
    *,
    resplit: bool = False,
    with_sample: bool = True,
    on_event: OnEvent = ignore,
) -> Plan:
    """Make the plan of a recipe, with the splits of the frozen plan in the output folder.

    With a sample, the first documents of each source are read to check that some can be used.
    `on_event` is called as files are opened.

    Raises:
        SourceError, PlanError: Same as `make_plan`.
        CorruptOutputError: plan.json is not a plan of this version.
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
    """Write plan.json, so that files added later belong to train, and return the result.

    A finished output keeps the plan with which it was verified until a job changes it: NOT_FROZEN.
    An output whose lease is held keeps the plan of that run: IN_USE. The result is AS_BEFORE for a
    plan that is stored already, and FROZEN otherwise. The function takes no lease: a run that read
    the previous plan notices the change before it writes anything, and starts over.
    """
    data = plan_to_json(plan)
    if frozen_bytes(out) == data:
        return AS_BEFORE
    if out.exists(MANIFEST_NAME):
        return NOT_FROZEN
    if free_number(out) is None:
        return IN_USE
    write_checked(out, PLAN_NAME, data)
    return FROZEN


def existing_tokenizer(recipe: Recipe, out: Folder) -> Tokenizer | None:
    """Return the tokenizer of the recipe, or else the one in the output folder."""
    folder = recipe.tokenizer.path
    if folder is None:
        folder = out.inside(TOKENIZER_FOLDER)
        if not out.exists(f"{TOKENIZER_FOLDER}/{READABLE_NAME}"):
            return None
    return tokenizer_in(folder, recipe)


def tokenizer_in(folder: str, recipe: Recipe) -> Tokenizer:
    """Load the tokenizer of a folder or a file, with the special tokens that a recipe adds.

    Raises:
        TokenizerError, PatternError: Same as `open_tokenizer`.
    """
    return open_tokenizer(folder).extended(recipe.tokenizer.extend)


MAX_LOSS = 0.1
"""The share of the files or bytes of a source that a job may remove without permission."""


def plan_changes(before: Plan | None, after: Plan) -> dict[str, Any] | None:
    """Return the differences from the frozen plan as JSON values, or None if there is none."""
    if before is None:
        return None
    slices = slice_changes(before, after)
    return {
        "sources": [change.to_dict() for change in changes(before, after)],
        "reading": [change.to_dict() for change in reading_changes(before, after)],
        "slices": {"same": slices.same, "new": slices.new, "gone": slices.gone},
        "slice_bytes": [before.slice_bytes, after.slice_bytes],
    }


def published(out: Folder) -> Manifest | None:
    """Return the manifest, or None if it is missing or cannot be read."""
    try:
        return read_manifest(out)
    except (IncompleteOutputError, CorruptOutputError):
        return None


def published_settings(out: Folder) -> Mapping[str, ShardSettings]:
    """Return the settings of each source in the manifest, empty without a manifest."""
    manifest = published(out)
    return {} if manifest is None else manifest.settings


def check_losses(output: OutputRecipe, out: Folder, before: Plan | None, after: Plan) -> None:
    """Raise an error if files are gone or empty now, unless the recipe allows their removal.

    Args:
        output: What the recipe allows.
        out: The output folder.
        before: The frozen plan of the output, or None.
        after: The plan of the recipe.

    Raises:
        PlanError: A source, or more than `MAX_LOSS` of one, is gone; or all sources are.
    """
    if before is None or output.replace or not out.exists(MANIFEST_NAME):
        return
    lost = list(losses(before, after))
    manifest = published(out)
    totals = {} if manifest is None else manifest.totals
    if lost and len(lost) == len(before.sources) and all(loss.is_whole for loss in lost):
        names = ", ".join(source.name for source in before.sources)
        raise PlanError(
            f"{out.url} is a published output of other inputs: none of the files of its sources "
            f"({names}; {_held(totals, 'all')}) is in this recipe, and a run would replace it, its "
            "tokenizer and its report. Choose another output.path, or pass --replace "
            "(output.replace = true)"
        )
    serious = [loss for loss in lost if loss.share > MAX_LOSS]
    if serious and not output.allow_removed:
        summary = "; ".join(_loss_text(loss, totals) for loss in serious)
        raise PlanError(
            f"{summary}. A run would drop their documents from the published output {out.url}. "
            "Restore the files (is a disk, bucket or folder not mounted?), or pass --allow-removed "
            "(output.allow_removed = true)"
        )


def _loss_text(loss: SourceLoss, totals: Mapping[str, Totals]) -> str:
    if loss.is_whole:
        held = ", ".join(
            _held(totals, key) for key in totals if key.rpartition("/")[0] == loss.source
        )
        files = quantity(loss.files, "file")
        return f"source {loss.source!r} is gone with {files}, all that it had ({held})"
    return (
        f"source {loss.source!r} has lost {len(loss.gone):,} of {loss.files:,} files, "
        f"{loss.gone_bytes / loss.num_bytes:.1%} of its bytes: {few(loss.gone)}"
    )


def _held(totals: Mapping[str, Totals], key: str) -> str:
    """Return a text with the totals of the manifest under a key."""
    counts = totals.get(key)
    if counts is None:
        return key
    split = "" if key == "all" else f" of {key.rpartition('/')[2]}"
    documents, tokens = counts.documents.out, counts.tokens
    return f"{quantity(documents, 'document')}{split}, {quantity(tokens, 'token')}"


def setting_changes(
    before: Mapping[str, ShardSettings], settings: Mapping[str, ShardSettings]
) -> Iterator[str]:
    """Yield a line on each setting that differs from the manifest; such shards are written again.

    Nothing is yielded for an unfinished output, where the record of each slice decides.
    """
    for name, current in settings.items() if before else ():
        yield from _setting_lines(name, before.get(name), current)


def _setting_lines(
    name: str, before: ShardSettings | None, current: ShardSettings
) -> Iterator[str]:
    if before is None:
        yield f"source {name!r} is new"
        return
    then = to_values(before)
    for field, value in to_values(current).items():
        old = then[field]
        if old == value:
            continue
        if field == "tokenizer_sha256":
            yield f"source {name!r}: the tokenizer is {value[:16]}, it was {old[:16]}"
        else:
            yield f"source {name!r}: {field} is {value}, it was {old}"
