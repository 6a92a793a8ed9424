"""Learn a tokenizer: of a recipe, or without one from nanochat's own data folder.

Takes nanochat's own flags (`--max-chars`, `--doc-cap`, `--vocab-size`); `--to-nanochat` writes the
files where nanochat looks for them.
"""

import sys
from pathlib import Path

from nanotok_ray.cli import main

NANOCHAT_RECIPE = Path(__file__).parent / "recipes" / "nanochat.toml"

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]], default_recipe=str(NANOCHAT_RECIPE)))
