"""Tokenize the corpus of a recipe with an existing tokenizer.

    ray job submit --working-dir jobs/recipes -- python -m jobs.tokenize_corpus RECIPE.toml

The options, exit codes and the JSON on the last line are those of `nanotok tokenize`.
"""

import sys
from typing import Any

import nanotok_ray
from nanotok_ray.cli import main


def tokenize(recipe: nanotok_ray.Recipe, **options: Any) -> nanotok_ray.Summary:  # noqa: ANN401
    """Tokenize every slice in parallel, verify the records together, and publish the output.

    The tokenizer is `tokenizer.path` of the recipe, or else the one that `jobs.train_tokenizer`
    wrote to the output folder. Texts become ids; conversations become ids and loss masks.
    """
    return nanotok_ray.tokenize(recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["tokenize", *sys.argv[1:]], job=tokenize))
