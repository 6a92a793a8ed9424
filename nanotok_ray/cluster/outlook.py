"""What a job would do, said before it does it. Starts no Ray and writes nothing."""

from dataclasses import dataclass
from typing import Any

from nanotok_ray.cluster.counting import finished_counts
from nanotok_ray.cluster.existing import existing_tokenizer, plan_for
from nanotok_ray.cluster.smaller import missing_sizes
from nanotok_ray.cluster.tokenize import tokenizing_of
from nanotok_ray.cluster.train import finished_tokenizer
from nanotok_ray.cluster.training import Training, training_of
from nanotok_ray.plan import Plan
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Outlook:
    """The plan in numbers, and how much of each stage is done; `values` is JSON-able."""

    values: dict[str, Any]

    def text(self) -> str:
        """Give the lines that a person reads."""
        own = self.values
        lines = [f"output      {own['output']}"]
        for source in own["sources"]:
            splits = ", ".join(f"{number:,} {split}" for split, number in source["slices"].items())
            lines.append(
                f"source      {source['name']}: {source['files']:,} files, "
                f"about {source['bytes'] / 1e6:,.1f} MB, slices: {splits}"
            )
        lines += [f"note        {note}" for note in own["notes"]]
        lines += [
            f"{stage:<11} {own[stage]['todo']:,} to do, {own[stage]['done']:,} done"
            for stage in ("count", "learn", "also", "tokenize")
            if stage in own
        ]
        return "\n".join(lines)


def outlook(recipe: Recipe, *, command: str, resplit: bool = False) -> Outlook:
    """Say what `prepare`, `train` or `tokenize` would do with a recipe.

    Raises:
        NanotokError: what the job itself would raise before it starts.
    """
    out = Folder(recipe.output.path)
    plan = plan_for(recipe, out, resplit=resplit)
    values: dict[str, Any] = {
        "status": "planned",
        "output": out.url,
        "sources": _sources(plan),
        "notes": list(plan.notes),
    }
    tokenizer = existing_tokenizer(recipe, out)
    if command != "tokenize" and recipe.tokenizer.path is None:
        training = training_of(recipe, plan)
        tokenizer = finished_tokenizer(training, out)
        counted = len(finished_counts([training.work(each) for each in training.slices]))
        todo = 0 if tokenizer is not None else len(training.slices) - counted
        values["count"] = {"todo": todo, "done": counted}
        values["learn"] = {"todo": int(tokenizer is None), "done": int(tokenizer is not None)}
        if recipe.tokenizer.also:
            values["also"] = _also(training, tokenizer, out)
    if command != "train":
        values["tokenize"] = _tokenize(recipe, plan, tokenizer, out)
    return Outlook(values)


def _also(training: Training, tokenizer: Tokenizer | None, out: Folder) -> dict[str, int]:
    """Count smaller tokenizers; of a tokenizer that is not learned yet any may yet be reached."""
    asked = training.recipe.tokenizer.also
    todo = len(asked) if tokenizer is None else len(missing_sizes(training, tokenizer, out))
    return {"todo": todo, "done": len(asked) - todo}


def _tokenize(
    recipe: Recipe, plan: Plan, tokenizer: Tokenizer | None, out: Folder
) -> dict[str, int]:
    if tokenizer is None:
        return {"todo": sum(1 for _ in plan.slices()), "done": 0}
    tokenizing = tokenizing_of(recipe, plan, tokenizer, out)
    todo = len(tokenizing.todo)
    return {"todo": todo, "done": len(tokenizing.expected) - todo}


def _sources(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": source.name,
            "files": len(source.files),
            "bytes": sum(each.num_bytes for each in source.slices),
            "slices": {
                split: sum(each.split == split for each in source.slices)
                for split in ("train", "val")
            },
        }
        for source in plan.sources
    ]
