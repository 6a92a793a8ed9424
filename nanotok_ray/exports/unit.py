"""Units of an export: adjacent shards of one source and split, and their documents.

Each file of a shard is read once, from start to end, from a disk or a remote store, and compared
with the sha256 of its record.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.formats import (
    DocumentBatch,
    DocumentIndex,
    DocumentReader,
    ShardTables,
    SourceUse,
    StoredShard,
    read_digests,
)
from nanotok_ray.storage import Folder, VerifiedFile

BATCH_BYTES = 16 << 20
"""Bytes of ids in a batch, unless a single document is larger."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Shards that become one set of files."""

    source: str
    split: str
    number: int
    """Its index among the units of its source and split; set if a layout is `numbered`."""
    name: str
    """Path in the export's folder without suffix, for its files and its record."""
    shards: tuple[StoredShard, ...]
    corpus: Corpus
    """The output that holds the shards."""
    batch_bytes: int = BATCH_BYTES
    """Bytes of ids in a batch, unless a single document is larger."""

    @property
    def out(self) -> Folder:
        """The folder of the output."""
        return self.corpus.out

    @property
    def documents(self) -> int:
        """Number of documents of all of its shards."""
        return sum(shard.documents for shard in self.shards)

    @property
    def tokens(self) -> int:
        """Number of tokens of all of its shards."""
        return sum(shard.tokens for shard in self.shards)

    @property
    def has_tokens(self) -> bool:
        """Whether any of its documents has a token."""
        return self.tokens > 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of its shards."""
        return sum(shard.num_bytes for shard in self.shards)

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return self.shards[0].item_bytes

    @property
    def inputs(self) -> tuple[str, ...]:
        """The first file that it is made of, for messages."""
        return (self.out.join(f"{self.shards[0].name}.bin"),)

    @property
    def suffixes(self) -> Collection[str]:
        """The suffixes of the native files of its documents."""
        return self.shards[0].sizes

    @property
    def has_masks(self) -> bool:
        """Whether its documents have loss masks."""
        return ".mask" in self.suffixes

    @property
    def has_document_ids(self) -> bool:
        """Whether its documents have ids from an `id_column`."""
        return ".ids" in self.suffixes

    @property
    def has_images(self) -> bool:
        """Whether its documents have images."""
        return ".images" in self.suffixes

    @property
    def parts(self) -> list[tuple[str, object]]:
        """The name of each shard with all values on which its documents depend."""
        return [(shard.name, shard.record_sha256) for shard in self.shards]

    @property
    def uses(self) -> dict[str, SourceUse]:
        """The documents and tokens of each source if several are mixed."""
        return {}

    def open(self) -> "Unit":
        """Return the unit for reading; it can hold much memory, so drop it afterwards."""
        return self

    def indexes(self) -> Iterator[DocumentIndex]:
        """Yield the index of the documents of each shard.

        Raises:
            CorruptOutputError: An index is invalid, or belongs to another shard.
        """
        for shard in self.shards:
            data = self._bytes(shard, ".idx", read_digests(self.out, shard))
            yield shard.index(data, name=self.out.join(f"{shard.name}.idx"))

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield all documents of all shards, in order, in batches of about `batch_bytes` of ids.

        Raises:
            CorruptOutputError: A file is missing, or differs from its record; for ids and masks
                this is known only after the last batch.
        """
        for shard in self.shards:
            yield from self._batches(shard)

    def publish(self, suffix: str, folder: Folder, name: str) -> tuple[int, str]:
        """Publish a file of its only shard in a folder; return its size and sha256 (hex).

        On one disk it is a hard link, which needs no space and outlives the native file; otherwise
        it is a copy.

        Raises:
            CorruptOutputError: The native file is missing.
        """
        (shard,) = self.shards
        source_name = shard.name + suffix
        try:
            return folder.take(self.out, source_name, name)
        except FileNotFoundError as error:
            raise CorruptOutputError(
                f"{self.out.join(source_name)} is missing; run the job again, which writes it again"
            ) from error

    def _batches(self, shard: StoredShard) -> Iterator[DocumentBatch]:
        digests = read_digests(self.out, shard)
        tables = ShardTables.of(
            shard, lambda suffix: self._bytes(shard, suffix, digests), folder=self.out.url
        )
        with ExitStack() as stack:
            reader = DocumentReader(
                shard, tables, lambda name: stack.enter_context(self._open(shard, name, digests))
            )
            limit = self.batch_bytes // shard.item_bytes
            for first, last in batch_bounds(reader.positions, limit):
                yield reader.take(last - first)

    def _open(
        self, shard: StoredShard, suffix: str, digests: Mapping[str, str]
    ) -> AbstractContextManager[VerifiedFile]:
        name, size = shard.name + suffix, shard.sizes[suffix]
        if self.out.size(name) != size:
            raise CorruptOutputError(
                f"{self.out.join(name)} is missing or has another size than shards.idx says: "
                f"{size:,} bytes; `nanotok verify {self.out.url}` says more"
            )
        return self.out.open_verified(name, sha256=digests[suffix])

    def _bytes(
        self, shard: StoredShard, suffix: str, digests: Mapping[str, str]
    ) -> npt.NDArray[np.uint8]:
        with self._open(shard, suffix, digests) as file:
            return np.frombuffer(file.read(shard.sizes[suffix]), dtype=np.uint8)


def units_of(
    corpus: Corpus, shards: Sequence[StoredShard], *, joined: int | None = None
) -> list[Unit]:
    """Return the units of an output in order.

    Args:
        corpus: the output.
        shards: all of its shards in order.
        joined: the number of units of each source and split, with about the same number of tokens,
            at most the number of shards; None: each shard is a unit.
    """
    units = []
    for (source, split), group in groupby(shards, lambda shard: (shard.source, shard.split)):
        group_shards = list(group)
        parts = (
            [[shard] for shard in group_shards] if joined is None else _parts(group_shards, joined)
        )
        for number, part in enumerate(parts):
            name = part[0].name if joined is None else f"{source}/{split}/{number:05d}"
            units.append(
                Unit(
                    source=source,
                    split=split,
                    number=number,
                    name=name,
                    shards=tuple(part),
                    corpus=corpus,
                )
            )
    return units


def batch_bounds(positions: npt.NDArray[np.int64], limit: int) -> Iterator[tuple[int, int]]:
    """Yield first and last + 1 of documents with at most `limit` tokens, or of one document.

    >>> list(batch_bounds(np.array([0, 3, 4, 9, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 5)]
    """
    first, count = 0, len(positions) - 1
    while first < count:
        last = int(np.searchsorted(positions, positions[first] + limit, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def _parts(shards: Sequence[StoredShard], number: int) -> list[list[StoredShard]]:
    """Divide shards into at most `number` non-empty groups of about the same number of tokens."""
    total, seen = sum(shard.tokens for shard in shards), 0
    parts: list[list[StoredShard]] = [[] for _ in range(number)]
    for shard in shards:
        middle = seen + shard.tokens / 2
        parts[min(int(middle * number / total) if total else 0, number - 1)].append(shard)
        seen += shard.tokens
    return [part for part in parts if part]
