"""`nanotok prepare --local` with small tasks, for rounds of chaos on the local executor."""

import sys

from nanotok_ray.cli import main
from tests.jobs.chaos_cluster import PART_BYTES
from tests.support.gated_driver import make_tasks_small

if __name__ == "__main__":
    make_tasks_small(PART_BYTES)
    sys.exit(main(["prepare", *sys.argv[1:], "--local", "--cpus", "2"]))
