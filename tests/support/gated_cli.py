"""`nanotok prepare` with one CPU that stops while counting.

    python -m tests.support.gated_cli RECIPE AFTER [OPTION ...]

When AFTER slices have records, every other slice waits forever before it is counted.
"""

import os
import sys
from pathlib import Path

from nanotok_ray.cli import main
from nanotok_ray.recipe import load_recipe
from tests.support.gated_driver import stand_still

if __name__ == "__main__":
    path, after, *options = sys.argv[1:]
    stand_still(load_recipe(path), gate=Path(os.devnull, "never"), after=int(after))
    sys.exit(main(["prepare", path, "--cpus", "1", *options]))
