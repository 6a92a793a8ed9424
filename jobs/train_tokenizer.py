"""Learn the tokenizer of a recipe from all its train documents, and stop there.

    ray job submit --working-dir jobs/recipes -- python -m jobs.train_tokenizer RECIPE.toml

Without a recipe it reads nanochat's own data folder. The options, exit codes and the JSON on the
last line are those of `nanotok train`.
"""

import sys
from pathlib import Path
from typing import Any

import nanotok_ray
from nanotok_ray.cli import main

NANOCHAT_RECIPE = Path(__file__).parent / "recipes" / "nanochat.toml"


def train(recipe: nanotok_ray.Recipe, **options: Any) -> nanotok_ray.Summary:  # noqa: ANN401
    """Count the spans of every train slice in parallel, sum the counts, and learn the merges.

    The tokenizer is written to OUT/tokenizer in the formats of nanochat, tiktoken and Hugging Face,
    with a report of every merge. `jobs.tokenize_corpus` tokenizes the corpus with it.
    """
    return nanotok_ray.train(recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]], job=train, default_recipe=str(NANOCHAT_RECIPE)))
