"""Which shards are open: those used last, as many as the system lets a process have files.

Takes shards by place; lets go of those that were not used for longest. Does
not know what a shard holds.
"""

import resource
from collections import OrderedDict
from dataclasses import dataclass, field

from nanotok_ray.reader.shard import OpenShard

MOST_FILES = 40_000
"""Files that are mapped at a time, of all shards of one object; Linux maps 65,530 in a process."""


@dataclass(slots=True, kw_only=True, eq=False)
class KeptOpen:
    """Open shards by place."""

    most_files: int
    _shards: "OrderedDict[int, OpenShard]" = field(init=False, default_factory=OrderedDict)
    _files: int = field(init=False, default=0)

    def get(self, place: int) -> OpenShard | None:
        """Give a shard that is open."""
        found = self._shards.get(place)
        if found is not None:
            self._shards.move_to_end(place)
        return found

    def add(self, place: int, shard: OpenShard) -> None:
        """Keep a shard that was opened, and let go of others until there is room for it."""
        self._shards[place] = shard
        self._files += shard.num_files
        while self._files > self.most_files and len(self._shards) > 1:
            self._files -= self._shards.popitem(last=False)[1].num_files

    def __len__(self) -> int:
        return len(self._shards)


def most_files() -> int:
    """Give how many files may be mapped: half of what the process may open, as each stays open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_FILES if limit == resource.RLIM_INFINITY else min(MOST_FILES, limit // 2)
