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

    1. The files of all sources are divided into slices; plan.json fixes the splits.
    2. Tasks count the spans of every train slice in parallel, each into a count file.
    3. The counts are summed, and the merges are learned in one process.
    4. Tasks tokenize every slice into shards, check a sample, and write a record of the files.
    5. The records are verified together, and the manifest is written last.

    Finished work is not repeated: the same command resumes an interrupted job.
    """
    return nanotok_ray.prepare(recipe, **options)


if __name__ == "__main__":
    sys.exit(main(["prepare", *sys.argv[1:]], job=prepare))
