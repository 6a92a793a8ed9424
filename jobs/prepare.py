"""Learn a tokenizer and tokenize the corpus of a recipe: both passes, verified.

The whole of `ray job submit --working-dir recipes/ -- python -m jobs.prepare RECIPE.toml`; the same
as `nanotok prepare RECIPE.toml`.
"""

import sys

from nanotok_ray.cli import main

if __name__ == "__main__":
    sys.exit(main(["prepare", *sys.argv[1:]]))
