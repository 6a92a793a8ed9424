"""`nanotok prepare` on a local Ray of one CPU that stands still in the middle of counting.

    python -m tests.gated_cli RECIPE AFTER

Once AFTER slices have records, every further slice waits for ever before it is counted.
"""

import os
import sys
from pathlib import Path

from nanotok_ray.cli import main
from nanotok_ray.recipe import load_recipe
from tests.gated_driver import stand_still

if __name__ == "__main__":
    path, after = sys.argv[1:]
    work = Path(load_recipe(path).output.work)
    stand_still(gate=Path(os.devnull, "never"), after=int(after), work=work)
    sys.exit(main(["prepare", path, "--workers", "1"]))
