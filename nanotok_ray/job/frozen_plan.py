"""The plan and the manifest of an output folder before a job starts."""

import hashlib
from collections.abc import Mapping

from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_PLAN_BYTES,
    PLAN_NAME,
    Manifest,
    ShardSettings,
    read_manifest,
)
from nanotok_ray.job.duplicates import with_lists
from nanotok_ray.job.events import Activity, OnEvent, ignore
from nanotok_ray.job.lease import free_number
from nanotok_ray.recipe import Recipe
from nanotok_ray.sources import EarlierPlan, Plan, make_plan, plan_from_json, plan_to_json
from nanotok_ray.storage import Checksums, Folder, write_checked

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
    is_finished = previous is not None and out.exists(MANIFEST_NAME)
    earlier = EarlierPlan(plan=previous, resplit=resplit, is_finished=is_finished)
    plan = make_plan(recipe, earlier=earlier, with_sample=with_sample, on_look=on_look)
    return with_lists(recipe, plan, out)


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
