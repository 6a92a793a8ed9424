"""A driver that learns a tokenizer, and stands still in the middle of counting until it may go on.

    python -m tests.gated_driver ADDRESS OWN_ADDRESS RECIPE [GATE AFTER]

Once AFTER slices have records, every further task waits for the file GATE before it counts.
"""

import sys
import time
from pathlib import Path

import ray

from nanotok_ray.cluster import counting
from nanotok_ray.cluster.events import Event
from nanotok_ray.cluster.job import train_tokenizer
from nanotok_ray.cluster.stages import CountWork, count_work
from nanotok_ray.recipe import load_recipe


def main() -> None:
    """Learn from what the command line names."""
    address, own_address, path, *gated = sys.argv[1:]
    recipe = load_recipe(path)
    if gated:
        stand_still(gate=Path(gated[0]), after=int(gated[1]), work=Path(recipe.output.work))
    ray.init(address=address, _node_ip_address=own_address, log_to_driver=False)
    train_tokenizer(recipe, on_event=tell)


def stand_still(*, gate: Path, after: int, work: Path) -> None:
    """Let counting wait for the gate."""

    def wait_and_count(each: CountWork) -> int:
        while not gate.exists() and sum(1 for _ in work.glob("counts/*/*.json")) >= after:
            time.sleep(0.01)
        return count_work(each)

    counting.count_work = wait_and_count


def tell(event: Event) -> None:
    """Print an event for the log."""
    sys.stdout.write(f"{event}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
