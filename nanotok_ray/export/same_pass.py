"""The export of a slice's shards by the worker that has just written them.

Takes the record of the slice, before there is a manifest; writes what the export of the finished
output would write, which then finds it done. Layouts that join shards, or that number them, have to
wait for the whole.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import NanotokError
from nanotok_ray.export.corpus import Corpus, ShardFacts
from nanotok_ray.export.folder import mark_unfinished
from nanotok_ray.export.layout import Layout
from nanotok_ray.export.native import NativeShard
from nanotok_ray.export.unit import Unit
from nanotok_ray.export.work import ExportWork, export_unit
from nanotok_ray.formats.manifest import to_json
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class SamePass:
    """What a worker exports of each slice that it has tokenized."""

    corpus: Corpus
    """Of the output to be; its manifest is not there yet."""
    layouts: tuple[tuple[Layout, str], ...]
    """With the URL of the folder of each export."""

    def begin(self) -> None:
        """Take each export.json away: what workers write stands beside files of former exports."""
        for _, folder in self.layouts:
            mark_unfinished(Folder(folder))

    def export(self, record: Mapping[str, Any]) -> None:
        """Export the shards of a slice, whose record is written; no error of that is the slice's.

        The export of the finished output comes upon it again, and tells it.
        """
        for unit in self._units(record):
            for layout, folder in self.layouts:
                if layout.joined is None and not layout.numbered:
                    with suppress(NanotokError, OSError):
                        export_unit(
                            ExportWork(unit=unit, layout=layout, corpus=self.corpus, folder=folder)
                        )

    def _units(self, record: Mapping[str, Any]) -> Iterator[Unit]:
        source, split = record["slice"]["source"], record["slice"]["split"]
        sha256 = hashlib.sha256(to_json(record)).hexdigest()
        for shard in record["shards"]:
            facts = ShardFacts(
                name=shard["name"],
                source=source,
                split=split,
                documents=shard["documents"],
                tokens=shard["tokens"],
                sizes=_sizes(shard["name"], record["files"]),
                record_sha256=sha256,
            )
            native = NativeShard(
                out=self.corpus.out, facts=facts, item_bytes=self.corpus.item_bytes
            )
            yield Unit(source=source, split=split, number=0, name=facts.name, shards=(native,))


def _sizes(name: str, files: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        file["name"].removeprefix(name): file["size"]
        for file in files
        if file["name"].startswith(f"{name}.")
    }
