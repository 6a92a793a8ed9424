"""Tokenize the corpus of a recipe with a tokenizer that is there already.

That is `tokenizer.path` of the recipe, else the tokenizer in its output folder.
"""

import sys

from nanotok_ray.cli import main

if __name__ == "__main__":
    sys.exit(main(["tokenize", *sys.argv[1:]]))
