"""What a job would do, decided as the job itself does. Starts no Ray and writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.job.counting import finished_counts, next_round
from nanotok_ray.job.dry_run_text import dry_run_text
from nanotok_ray.job.existing import (
    check_losses,
    existing_tokenizer,
    frozen_plan,
    plan_changes,
    plan_for,
    published_settings,
    setting_changes,
)
from nanotok_ray.job.run import STALE_TOKENIZER
from nanotok_ray.job.tokenize import check_special_tokens, tokenizing_of
from nanotok_ray.job.train import current_tokenizer
from nanotok_ray.job.training import Training, missing_sizes, training_of
from nanotok_ray.job.work import CountWork
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards.output import Record
from nanotok_ray.sources import Plan, Slice, overview
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """The plan in numbers, and how much of each stage is done; `values` is JSON-able."""

    values: dict[str, Any]
    plan: Plan
    tokenizer: Tokenizer | None
    """The one that is there and would be used."""
    todo: Mapping[str, Sequence[Slice]]
    """The slices to do of the stages that have slices: count, tokenize."""

    def text(self) -> str:
        """Return the lines that a person reads."""
        return dry_run_text(self.values)


def dry_run(
    recipe: Recipe, *, command: str, resplit: bool = False, relearn: bool = False
) -> DryRun:
    """Return what `prepare`, `train` or `tokenize` would do with a recipe.

    Raises:
        NanotokError: what the job itself would raise before it starts.
    """
    if command == "prepare":
        check_special_tokens(recipe)
    out = Folder(recipe.output.path)
    before, plan = frozen_plan(out), plan_for(recipe, out, resplit=resplit)
    check_losses(recipe.output, out, before, plan)
    values: dict[str, Any] = {
        "status": "planned",
        "output": out.url,
        "sources": overview(plan),
        "notes": list(plan.notes),
        "changes": plan_changes(before, plan),
    }
    todo: dict[str, Sequence[Slice]] = {}
    tokenizer = existing_tokenizer(recipe, out)
    if command != "tokenize" and recipe.tokenizer.path is None:
        training, tokenizer = current_tokenizer(
            training_of(recipe, plan), out, relearn=relearn or command == "train"
        )
        if training.is_of_other_inputs:
            values["notes"].append(STALE_TOKENIZER)
        works = [training.work(slice_) for slice_ in training.slices]
        known = finished_counts(works)
        todo["count"] = [] if tokenizer is not None else _uncounted(training, works, known)
        values["count"] = _stage(todo["count"], done=len(known))
        if training.recipe.limits.max_chars is not None and todo["count"]:
            values["notes"].append(
                _note_on_max_chars(todo["count"], max_slices=len(works) - len(known))
            )
        values["learn"] = {"todo": int(tokenizer is None), "done": int(tokenizer is not None)}
        if recipe.tokenizer.also:
            values["also"] = _also(training, tokenizer, out)
    if command != "train":
        slices = list(plan.slices())
        todo["tokenize"], why = _untokenized(recipe, plan, tokenizer, out)
        values["tokenize"] = _stage(todo["tokenize"], done=len(slices) - len(todo["tokenize"]))
        values["notes"] += why
    return DryRun(values=values, plan=plan, tokenizer=tokenizer, todo=todo)


def _stage(todo: Sequence[Slice], *, done: int) -> dict[str, int]:
    sizes = {slice_.reads: slice_.num_bytes for slice_ in todo}.values()  # both splits read it once
    return {
        "todo": len(todo),
        "done": done,
        "bytes": sum(sizes),
        "largest_slice": max(sizes, default=0),
    }


def _uncounted(
    training: Training, works: Sequence[CountWork], known: Mapping[str, Record]
) -> list[Slice]:
    """Return the slices to count; with max_chars those of the first round, a byte a code point."""
    limit = training.recipe.limits.max_chars
    if limit is None:
        return [work.slice for work in works if work.name not in known]
    return [work.slice for work in next_round(works, known, passed_over=(), limit=limit)]


def _note_on_max_chars(todo: Sequence[Slice], *, max_slices: int) -> str:
    return (
        f"limits.max_chars ends counting: {len(todo):,} slices are counted first, then as many "
        f"more as it takes to reach it, at most {max_slices:,} in all"
    )


def _also(training: Training, tokenizer: Tokenizer | None, out: Folder) -> dict[str, int]:
    """Count smaller tokenizers; of a tokenizer that is not learned yet any may yet be reached."""
    asked = training.recipe.tokenizer.also
    todo = len(asked) if tokenizer is None else len(missing_sizes(training, tokenizer, out))
    return {"todo": todo, "done": len(asked) - todo}


def _untokenized(
    recipe: Recipe, plan: Plan, tokenizer: Tokenizer | None, out: Folder
) -> tuple[list[Slice], list[str]]:
    """Return the slices to tokenize, and what is not as in the published output."""
    there = tokenizer if tokenizer is not None else existing_tokenizer(recipe, out)
    if there is None:
        return list(plan.slices()), []
    tokenizing = tokenizing_of(recipe, plan, there, out)
    why = list(setting_changes(published_settings(out), tokenizing.settings))
    if tokenizer is not None:
        return [expected.slice for expected in tokenizing.todo], why
    slices = list(plan.slices())
    tokenizer_recipe = recipe.tokenizer
    could_stay = there.get_vocab_size() <= tokenizer_recipe.vocab_size + len(
        tokenizer_recipe.extend
    )
    if could_stay and len(tokenizing.todo) < len(slices):
        why.append(
            f"the tokenizer is learned again: if it comes out as it is, {len(tokenizing.todo):,} "
            f"of {len(slices):,} slices are tokenized, else all"
        )
    return slices, why
