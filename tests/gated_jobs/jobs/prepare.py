"""`python -m jobs.prepare RECIPE` that stands still: after one record, slices wait for ever."""

import os
import sys
from pathlib import Path

from nanotok_ray.cli import main
from nanotok_ray.recipe import load_recipe
from tests.gated_driver import stand_still

if __name__ == "__main__":
    stand_still(load_recipe(sys.argv[1]), gate=Path(os.devnull, "never"), after=1)
    sys.exit(main(["prepare", *sys.argv[1:]]))
