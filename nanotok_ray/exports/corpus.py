"""The shards and sources of a finished output, as validated values for the layouts."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nanotok_ray.formats import (
    MANIFEST_NAME,
    SPLITS,
    Manifest,
    OutputFacts,
    ShardsIndex,
    load,
    manifest_bytes,
    read_shards_index,
    record_name,
    shard_name,
)
from nanotok_ray.shards import MASKED
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFacts:
    """Properties of every document of a source."""

    name: str
    kind: str
    prepend: tuple[int, ...]
    """Ids that begin each document of a text source; empty for other sources."""
    append: tuple[int, ...]
    """Ids that end each document of a text source; empty for other sources."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardFacts:
    """A native shard as described by shards.idx."""

    name: str
    """Path in the output folder without suffix."""
    source: str
    split: str
    documents: int
    tokens: int
    sizes: Mapping[str, int]
    """Bytes of each of its files by suffix: .bin, .idx and the optional ones."""
    record_sha256: str
    """The sha256 of the record that names its files."""

    @property
    def record_name(self) -> str:
        """Path of the record of its files: the path of the shard without its number."""
        return record_name(self.name)

    @property
    def num_bytes(self) -> int:
        """Bytes of all of its files."""
        return sum(self.sizes.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """A finished output without the data of its shards."""

    out: Folder
    facts: OutputFacts
    manifest_sha256: str

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return self.facts.item_bytes

    @property
    def num_ids(self) -> int:
        """The highest id of the tokenizer + 1."""
        return self.facts.num_ids

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Id of each special token by name."""
        return self.facts.special_tokens

    @property
    def sources(self) -> tuple[SourceFacts, ...]:
        """The sources in the order of the recipe."""
        return tuple(map(self._source, self.facts.sources))

    def _source(self, name: str) -> SourceFacts:
        kind, settings = self.facts.kinds[name], self.facts.settings[name]
        ids = self.special_tokens
        if kind != "text":
            return SourceFacts(name=name, kind=kind, prepend=(), append=())
        return SourceFacts(
            name=name,
            kind=kind,
            prepend=tuple(ids[token] for token in settings.prepend),
            append=tuple(ids[token] for token in settings.append),
        )


_COLUMNS = {
    ".bin": "bin_bytes",
    ".idx": "idx_bytes",
    ".mask": "mask_bytes",
    ".ids": "ids_bytes",
    ".images": "images_bytes",
}


def read_corpus(out: Folder) -> tuple[Corpus, list[ShardFacts]]:
    """Read the manifest and shards.idx of a finished output, local or remote.

    The shards are in order: by source, train before val.

    Raises:
        IncompleteOutputError: The manifest does not exist: the job has not finished.
        CorruptOutputError: One of the two files differs from what a job writes.
    """
    data = manifest_bytes(out)
    manifest = load(Manifest, data, name=out.join(MANIFEST_NAME))
    index = read_shards_index(out, manifest)
    sha256 = hashlib.sha256(data).hexdigest()
    corpus = Corpus(out=out, facts=manifest, manifest_sha256=sha256)
    return corpus, list(_shards(index, manifest))


def _shards(index: ShardsIndex, manifest: Manifest) -> Iterator[ShardFacts]:
    names, kinds = manifest.sources, manifest.kinds
    for number, row in enumerate(index.rows):
        sizes = {suffix: int(row[column]) for suffix, column in _COLUMNS.items()}
        is_masked = kinds[names[int(row["source"])]] in MASKED  # 0 bytes if there is no token
        always = (".bin", ".idx", ".mask") if is_masked else (".bin", ".idx")
        yield ShardFacts(
            name=shard_name(index, number, sources=names),
            source=names[int(row["source"])],
            split=SPLITS[int(row["split"])],
            documents=int(row["documents"]),
            tokens=int(row["tokens"]),
            sizes={suffix: size for suffix, size in sizes.items() if size or suffix in always},
            record_sha256=bytes(row["record_sha256"]).hex(),
        )
