"""What an output folder holds before a job starts: a frozen plan, and a tokenizer.

Starts no Ray. Does not know whether they are those of the recipe. Nothing is written but a plan
that is to be frozen.
"""

from nanotok_ray.cluster.lease_file import free_number
from nanotok_ray.formats.manifest import MANIFEST_NAME, PLAN_NAME, TOKENIZER_FOLDER
from nanotok_ray.recipe import Recipe
from nanotok_ray.sources import Plan, make_plan, plan_from_json, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer, open_tokenizer

FROZEN, AS_BEFORE, NOT_FROZEN, IN_USE = "frozen", "as before", "not frozen", "in use"


def frozen_bytes(out: Folder) -> bytes | None:
    """Give plan.json as it stands, None if there is none."""
    return out.read_bytes(PLAN_NAME) if out.exists(PLAN_NAME) else None


def frozen_plan(out: Folder) -> Plan | None:
    """Give the plan that was frozen before, if there is one.

    Raises:
        CorruptOutputError: it is not a plan of this version.
    """
    return plan_from_json(out.read_bytes(PLAN_NAME)) if out.exists(PLAN_NAME) else None


def plan_for(
    recipe: Recipe, out: Folder, *, resplit: bool = False, with_sample: bool = True
) -> Plan:
    """Make the plan of a recipe, under the splits that an earlier plan in the output folder froze.

    With a sample the first documents of each source are read, to see that some can be used.

    Raises:
        SourceError, PlanError: as `make_plan`.
    """
    previous = frozen_plan(out)
    return make_plan(
        recipe,
        previous=previous,
        resplit=resplit,
        is_finished=previous is not None and out.exists(MANIFEST_NAME),
        with_sample=with_sample,
    )


def freeze(plan: Plan, out: Folder) -> str:
    """Write plan.json, so that files added later are train; give what became of it.

    An output that is finished was verified with its own plan, and keeps it until a job begins to
    change it: NOT_FROZEN. An output whose lease somebody holds has that run's plan: IN_USE. A plan
    that was frozen already is AS_BEFORE, any other is FROZEN. This takes no lease: a run that has
    looked at another plan sees that when it begins to change something, and looks again.
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
    """Give the tokenizer that is there: the recipe's, else the one in the output folder."""
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
    own = recipe.tokenizer
    return open_tokenizer(folder, span_table=own.uses_span_table).extended(own.extend)
