"""Learn a tokenizer and tokenize the corpus of a recipe, as one job.

    ray job submit --working-dir jobs/recipes -- python -m jobs.prepare RECIPE.toml

The options, exit codes and the JSON on the last line are those of `nanotok prepare`.
"""

import sys
from typing import Any

import nanotok_ray
from nanotok_ray.cli import main


def prepare(recipe: nanotok_ray.Recipe, **options: Any) -> nanotok_ray.Summary:  # noqa: ANN401
    """Plan the corpus, learn the tokenizer, write the shards, verify and publish them.

    1. The files of all sources are cut into slices; the splits are frozen in plan.json.
    2. Tasks count the spans of every train slice in parallel, and a count file holds each result.
    3. The counts are summed, and the merges are learned in one process.
    4. Tasks tokenize every slice into shards, check a sample, and record what they wrote.
    5. The records are verified together, and the manifest is written last.

    What is already there is not done again: the same command resumes a job that was interrupted.
    """
    return nanotok_ray.prepare(recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["prepare", *sys.argv[1:]], job=prepare))
