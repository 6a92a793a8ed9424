"""`jobs.prepare` that stops: after one record, other slices wait forever.

A submitted job runs it in place of the project's own if its PYTHONPATH begins with the folder of
`write_jobs`.
"""

import os
import sys
from pathlib import Path

from nanotok_ray.cli import main
from nanotok_ray.recipe import load_recipe
from tests.support.gated_driver import stand_still


def write_jobs(folder):
    """Write a package `jobs` to a folder, and return the PYTHONPATH on which it is found first."""
    package = folder / "jobs"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "prepare.py").write_text("from tests.support.gated_prepare import run\n\nrun()\n")
    return f"{folder}:{Path(__file__).resolve().parents[2]}"


def run():
    """Run the job of the command line."""
    stand_still(load_recipe(sys.argv[1]), gate=Path(os.devnull, "never"), after=1)
    sys.exit(main(["prepare", *sys.argv[1:]]))
