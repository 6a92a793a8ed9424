"""Which shards are open: those used last, as many as the system lets a process have files.

Takes shards by place, of any thread; lets go of those that were not used for longest. Does not know
what a shard holds.
"""

import os
import resource
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from nanotok_ray.reader.shard import OpenShard

MOST_FILES = 40_000
"""Files that are mapped at a time, of all shards of one object; Linux maps 65,530 in a process."""

_LOCK = threading.Lock()
"""Of all objects: a fork takes it too, so that no child is born with it held by another thread."""
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)


@dataclass(slots=True, kw_only=True, eq=False)
class KeptOpen:
    """Open shards by place."""

    most_files: int
    _shards: "OrderedDict[int, OpenShard]" = field(init=False, default_factory=OrderedDict)
    _files: int = field(init=False, default=0)

    def get(self, place: int) -> OpenShard | None:
        """Give a shard that is open."""
        with _LOCK:
            found = self._shards.get(place)
            if found is not None:
                self._shards.move_to_end(place)
        return found

    def add(self, place: int, shard: OpenShard) -> None:
        """Keep a shard that was opened, and let go of others until there is room for it."""
        with _LOCK:
            if place in self._shards:  # another thread was faster
                return
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
