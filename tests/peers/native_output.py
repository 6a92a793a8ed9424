"""The reference of the checks in this folder: a finished output, opened plainly.

The checks run in a separate environment with the peers, from the root of this repository:
`PYTHONPATH=. PYTHON tests/peers/check_NAME.py OUT EXPORT`. They need no compiled core.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from nanotok_ray.formats import SPLITS
from nanotok_ray.loader import Ids, Shards, open_shards


@dataclass(frozen=True, slots=True)
class Place:
    """The documents of one source and split."""

    name: str
    """SOURCE/SPLIT, the folder that a reader opens."""
    shards: Shards

    def by_shard(self) -> Iterator[tuple[str, range]]:
        """Yield each shard with documents, and the range of its documents."""
        for name, group in groupby(range(len(self.shards)), lambda n: self.shards.shard_of(n)[0]):
            numbers = list(group)
            yield name, range(numbers[0], numbers[-1] + 1)

    def ids_of(self, documents: range) -> Ids:
        """Return the ids of adjacent documents back to back."""
        return np.concatenate([self.shards[number] for number in documents])

    def mask_of(self, documents: range) -> np.ndarray | None:
        """Return their masks back to back, or None without masks."""
        masks = [self.shards.mask(number) for number in documents]
        return None if masks[0] is None else np.concatenate(masks)


def locations_of(out: str) -> Iterator[Place]:
    """Yield every source and split with documents."""
    manifest = json.loads((Path(out) / "manifest.json").read_bytes())
    for source in manifest["sources"]:
        for split in SPLITS:
            shards = open_shards(out, split, source)
            if len(shards):
                yield Place(f"{source}/{split}", shards)


class Tally:
    """Counts equal items and reports different ones."""

    def __init__(self) -> None:
        self.equal: dict[str, int] = {}
        self.differences: list[str] = []

    def compare(self, kind: str, what: str, same: object) -> None:
        """Note whether one thing of a kind is what it must be."""
        self.equal[kind] = self.equal.get(kind, 0) + bool(same)
        if not same:
            self.differences.append(f"{kind}: {what} differs")


def write_equal(equal: Mapping[str, int]) -> None:
    """Print the number of equal parts, the last line of a check without differences."""
    reported = ", ".join(f"{number:,} {kind}" for kind, number in equal.items() if number)
    sys.stdout.write(f"equal: {reported or 'nothing'}\n")


def run(check: Callable[[Place, Path, Tally], None]) -> None:
    """Check every source and split of `OUT EXPORT`; exit with 1 if anything differs."""
    if len(sys.argv) < 3:
        sys.exit(f"usage: PYTHONPATH=. {sys.argv[0]} OUT EXPORT")
    out, export = sys.argv[1:3]
    tally = Tally()
    for place in locations_of(out):
        check(place, Path(export), tally)
    write_equal(tally.equal)
    for difference in tally.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.exit(bool(tally.differences) or not tally.equal)
