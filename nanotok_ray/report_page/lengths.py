"""Lengths of documents in tokens, and how often ids occur: of a sample where there are many shards.

Takes open shards; gives numbers. The sample is by rule, so that the same output gives the same one:
shards evenly far apart, and of each of them documents evenly far apart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.formats.paths import is_local
from nanotok_ray.loader.shards import Shards

MOST_SHARDS = 256
MOST_REMOTE_SHARDS = 48
"""Shards of a split that are opened: of a URL each is some requests."""

_MOST_DOCUMENTS = 20_000
"""Of a shard."""

MOST_READ = 24
MOST_REMOTE_READ = 6
_MOST_TOKENS = 20_000
"""Shards that are read for their ids, and tokens of each."""

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Lengths:
    """Tokens of documents by source, of train and val together."""

    by_source: dict[str, Numbers] = field(default_factory=dict)
    documents: int = 0
    """How many there are in all; as many as were looked at, if it is no sample."""

    @property
    def looked_at(self) -> int:
        """How many of them are in the sample."""
        return sum(map(len, self.by_source.values()))


def lengths_of(shards: Mapping[str, Shards]) -> Lengths:
    """Look at the lengths of documents.

    Raises:
        CorruptOutputError: an index is not what the manifest says.
    """
    found: dict[str, list[Numbers]] = {}
    documents = 0
    for own in shards.values():
        documents += len(own)
        for place in _chosen(own):
            source, numbers = _documents(own, place, most=_MOST_DOCUMENTS)
            if len(numbers):
                found.setdefault(source, []).append(own.lengths(numbers))
    names = [name for own in list(shards.values())[:1] for name in own.sources if name in found]
    return Lengths({name: np.concatenate(found[name]) for name in names}, documents)


def use_of(shards: Shards, *, num_ids: int) -> Numbers:
    """Count the ids of a sample: [num_ids].

    Raises:
        CorruptOutputError: a file is not what the manifest says.
    """
    counts = np.zeros(num_ids, dtype=np.int64)
    chosen = _chosen(shards)
    most = MOST_READ if is_local(shards.files.url) else MOST_REMOTE_READ
    for place in chosen[:: max(-(-len(chosen) // most), 1)]:
        _, numbers = _documents(shards, place, most=_MOST_DOCUMENTS)
        left = _MOST_TOKENS
        for document in numbers.tolist():
            ids = shards[document][:left]
            counts += np.bincount(ids, minlength=num_ids)[:num_ids]
            left -= len(ids)
            if left <= 0:
                break
    return counts


def _chosen(shards: Shards) -> list[int]:
    most = MOST_SHARDS if is_local(shards.files.url) else MOST_REMOTE_SHARDS
    count = len(shards.rows)
    places: list[int] = np.linspace(0, count - 1, min(count, most)).astype(int).tolist()
    return sorted(set(places))


def _documents(shards: Shards, place: int, *, most: int) -> tuple[str, Numbers]:
    """Give the source of a shard, and the numbers of documents of it."""
    row = shards.index.rows[int(shards.rows[place])]
    before = shards.index.rows["documents"][shards.rows[:place]].sum(dtype=np.int64)
    count = int(row["documents"])
    step = -(-count // most) if count else 1
    return shards.sources[int(row["source"])], np.arange(before, before + count, step)
