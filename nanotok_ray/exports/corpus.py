"""The shards and sources of a finished output, as validated values for the layouts."""

from collections.abc import Mapping
from dataclasses import dataclass

from nanotok_ray.formats import (
    MANIFEST_NAME,
    Manifest,
    OutputFacts,
    StoredShard,
    load,
    manifest_bytes,
    read_shards_index,
    sha256_of,
)
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
class Corpus:
    """A finished output without the data of its shards."""

    out: Folder
    facts: OutputFacts
    manifest_sha256: str
    mixed: tuple[str, ...] = ()
    """The sources of the ordered documents, whose source is `mixture`; empty without an order."""

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

    def sources_of(self, name: str) -> tuple[SourceFacts, ...]:
        """The sources of the documents of a unit, by the name of its source."""
        names = self.mixed or (name,)
        return tuple(source for source in self.sources if source.name in names)

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


def read_corpus(out: Folder) -> tuple[Corpus, list[StoredShard]]:
    """Read the manifest and shards.idx of a finished output, local or remote.

    The shards are in order: by source, train before val.

    Raises:
        IncompleteOutputError: The manifest does not exist: the job has not finished.
        CorruptOutputError: One of the two files differs from what a job writes.
    """
    data = manifest_bytes(out)
    manifest = load(Manifest, data, name=out.join(MANIFEST_NAME))
    index = read_shards_index(out, manifest)
    sha256 = sha256_of(data)
    corpus = Corpus(out=out, facts=manifest, manifest_sha256=sha256)
    return corpus, [index.shard(row, manifest) for row in range(len(index.rows))]
