"""The reference of the checks in this folder: a finished output, opened plainly.

The checks run in a separate environment with the peers, from the root of this repository:
`PYTHONPATH=. PYTHON tests/peers/check_NAME.py OUT EXPORT`. They need no compiled core. The exit
code is 1 if anything differs. `requirements.txt` lists the versions of the peers.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nanotok_ray.formats import SPLITS
from nanotok_ray.loader import Ids, Shards, open_shards


@dataclass(frozen=True, slots=True)
class Place:
    """The documents of one source and split."""

    name: str
    """SOURCE/SPLIT, the folder that a reader opens."""
    shards: Shards
    manifest: Mapping[str, Any]

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
                yield Place(f"{source}/{split}", shards, manifest)


class Tally:
    """Counts equal items and reports different ones."""

    def __init__(self) -> None:
        self.equal: dict[str, int] = {}
        self.differences: list[str] = []

    def compare(self, kind: str, what: str, same: object) -> None:
        """Note whether one thing of a kind is what it must be."""
        self.count(**{kind: bool(same)})
        if not same:
            self.differences.append(f"{kind}: {what} differs")

    def count(self, **numbers: int) -> None:
        """Add numbers of equal things by their kinds."""
        for kind, number in numbers.items():
            self.equal[kind] = self.equal.get(kind, 0) + number


def same(own: Any, other: Any, what: str) -> None:
    """Stop at a difference."""
    if not np.array_equal(np.asarray(own), np.asarray(other)):
        raise SystemExit(f"DIFFERENT: {what}")


def module_of(path: Path) -> ModuleType:
    """Import only a file of a package, which would import much else."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def write_equal(equal: Mapping[str, int]) -> None:
    """Print the number of equal parts, the last line of a check without differences."""
    reported = ", ".join(f"{number:,} {kind}" for kind, number in equal.items() if number)
    sys.stdout.write(f"equal: {reported or 'nothing'}\n")


def run(check: Callable[..., None], *, checkout: str | None = None) -> None:
    """Check every source and split of `OUT EXPORT`; exit with 1 if anything differs.

    An option `checkout` names the sources of a project, or None, which the check gets last.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("export", type=Path)
    if checkout:
        parser.add_argument(checkout, type=Path, dest="checkout")
    given = parser.parse_args()
    tally = Tally()
    for place in locations_of(given.out):
        check(place, given.export, tally, *([given.checkout] if checkout else []))
    write_equal(tally.equal)
    for difference in tally.differences[:20]:
        sys.stdout.write(f"{difference}\n")
    sys.exit(bool(tally.differences) or not tally.equal)
