"""What an output folder holds before a job starts: a frozen plan, and a tokenizer.

Writes nothing and starts no Ray. Does not know whether they are those of the recipe.
"""

from nanotok_ray.manifest import PLAN_NAME, TOKENIZER_FOLDER
from nanotok_ray.plan import Plan, make_plan, plan_from_json
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer


def plan_for(recipe: Recipe, out: Folder, *, resplit: bool = False) -> Plan:
    """Make the plan of a recipe, under the splits that an earlier plan in the output folder froze.

    Raises:
        SourceError, PlanError: as `make_plan`.
    """
    previous = plan_from_json(out.read_bytes(PLAN_NAME)) if out.exists(PLAN_NAME) else None
    return make_plan(recipe, previous=previous, resplit=resplit)


def existing_tokenizer(recipe: Recipe, out: Folder) -> Tokenizer | None:
    """Give the tokenizer that is there: the recipe's, else the one in the output folder."""
    use = recipe.tokenizer.uses_span_table
    if recipe.tokenizer.path is not None:
        return Tokenizer.load(recipe.tokenizer.path, span_table=use)
    if not out.exists(f"{TOKENIZER_FOLDER}/{READABLE_NAME}"):
        return None
    return Tokenizer.load(out.join(TOKENIZER_FOLDER), span_table=use)
