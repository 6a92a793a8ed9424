"""Learn the tokenizer of a recipe from all its train documents, without tokenizing them.

    ray job submit --working-dir jobs/recipes -- python -m jobs.train_tokenizer RECIPE.toml

Without a recipe it reads nanochat's data folder. The options, exit codes and the JSON on the last
line are those of `nanotok train`.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nanotok_ray
from nanotok_ray.cli import main

RECIPES = Path(__file__).parent / "recipes"
_OF_EXPERIMENTS = ("NANOCHAT_EXPERIMENT", "NANOCHAT_EXPERIMENTS_DIR", "NANOCHAT_DATASET")


def nanochat_recipe(environment: Mapping[str, str]) -> Path:
    """Return the recipe for nanochat's current folders, or for those of its experiments.

    >>> nanochat_recipe({"NANOCHAT_DATASET": "climbmix"}).name
    'nanochat-experiment.toml'
    """
    base = environment.get("NANOCHAT_BASE_DIR") or Path.home() / ".cache" / "nanochat"
    has_today = (Path(base) / "base_data_climbmix").is_dir()
    has_datasets = (Path(base) / "datasets").is_dir()
    if any(map(environment.get, _OF_EXPERIMENTS)) or (has_datasets and not has_today):
        return RECIPES / "nanochat-experiment.toml"
    return RECIPES / "nanochat.toml"


def train(recipe: nanotok_ray.Recipe, **options: Any) -> nanotok_ray.Summary:  # noqa: ANN401
    """Count the spans of every train slice in parallel, sum the counts, and learn the merges.

    The tokenizer is written to OUT/tokenizer in the formats of nanochat, tiktoken and Hugging Face,
    with a report of every merge. `jobs.tokenize_corpus` tokenizes the corpus with it.
    """
    return nanotok_ray.train(recipe, **options)


if __name__ == "__main__":
    sys.exit(
        main(["train", *sys.argv[1:]], job=train, default_recipe=str(nanochat_recipe(os.environ)))
    )
