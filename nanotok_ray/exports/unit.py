"""Units of an export: adjacent shards of one source and split."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.native import BATCH_BYTES, Batch, NativeShard
from nanotok_ray.formats import StoredShard


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Shards that become one set of files."""

    source: str
    split: str
    number: int
    """Its index among the units of its source and split; set if a layout is `numbered`."""
    name: str
    """Path in the export's folder without suffix, for its files and its record."""
    shards: tuple[NativeShard, ...]

    @property
    def documents(self) -> int:
        """Number of documents of all of its shards."""
        return sum(shard.facts.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        """Number of tokens of all of its shards."""
        return sum(shard.facts.tokens for shard in self.shards)

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of its shards."""
        return sum(shard.facts.num_bytes for shard in self.shards)

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return self.shards[0].facts.item_bytes

    @property
    def batch_bytes(self) -> int:
        """Bytes of ids in a batch, unless a single document is larger."""
        return self.shards[0].batch_bytes

    @property
    def has_masks(self) -> bool:
        """Whether its documents have loss masks."""
        return ".mask" in self.shards[0].facts.sizes

    @property
    def has_document_ids(self) -> bool:
        """Whether its documents have ids from an `id_column`."""
        return ".ids" in self.shards[0].facts.sizes

    @property
    def has_images(self) -> bool:
        """Whether its documents have images."""
        return ".images" in self.shards[0].facts.sizes

    def batches(self) -> Iterator[Batch]:
        """Yield all documents of all shards, in order."""
        for shard in self.shards:
            yield from shard.batches()


def units_of(
    corpus: Corpus,
    shards: Sequence[StoredShard],
    *,
    joined: int | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> list[Unit]:
    """Return the units of an output in order.

    Args:
        corpus: the output.
        shards: all of its shards in order.
        joined: the number of units of each source and split, with about the same number of tokens,
            at most the number of shards; None: each shard is a unit.
        batch_bytes: the bytes of ids that are read at a time.
    """
    units = []
    for (source, split), group in groupby(shards, lambda shard: (shard.source, shard.split)):
        group_shards = list(group)
        parts = (
            [[shard] for shard in group_shards] if joined is None else _parts(group_shards, joined)
        )
        for number, part in enumerate(parts):
            name = part[0].name if joined is None else f"{source}/{split}/{number:05d}"
            native = [
                NativeShard(out=corpus.out, facts=facts, batch_bytes=batch_bytes) for facts in part
            ]
            units.append(
                Unit(source=source, split=split, number=number, name=name, shards=tuple(native))
            )
    return units


def _parts(shards: Sequence[StoredShard], number: int) -> list[list[StoredShard]]:
    """Divide shards into at most `number` non-empty groups of about the same number of tokens."""
    total, seen = sum(shard.tokens for shard in shards), 0
    parts: list[list[StoredShard]] = [[] for _ in range(number)]
    for shard in shards:
        middle = seen + shard.tokens / 2
        parts[min(int(middle * number / total) if total else 0, number - 1)].append(shard)
        seen += shard.tokens
    return [part for part in parts if part]
