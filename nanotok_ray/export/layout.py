"""What every layout is: how shards are written for one kind of trainer, and read back plainly.

A layout is a value: its name, and its options as fields. It takes units and a target; gives
documents, as its readers see them. Does not know records, Ray or the command line.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from nanotok_ray.export.corpus import Corpus
from nanotok_ray.export.native import Ids, Mask
from nanotok_ray.export.target import Target
from nanotok_ray.export.unit import Unit
from nanotok_ray.storage import Folder

Document = tuple[Ids, Mask | None]
"""Ids and, where the layout has a place for it, the loss mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What became of a unit's documents."""

    documents: int
    """Documents that are in its files."""
    tokens: int
    """Token ids that are in its files, those that the layout adds included."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Documents that the layout cannot hold, by reason."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that `finish` needs of each unit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A unit as its record has it: for `finish`, and for reading back."""

    unit: Unit
    files: Sequence[Mapping[str, Any]]
    """Name, size and sha256 of each file."""
    written: Written

    def names(self, suffix: str) -> list[str]:
        """Give the names of its files that end so, sorted."""
        return sorted(file["name"] for file in self.files if file["name"].endswith(suffix))


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """One layout with its options."""

    name: ClassVar[str]
    format: ClassVar[str]
    """Name and version: another version is exported again."""
    reader: ClassVar[str]
    """Who reads it, for people."""
    keeps_documents: ClassVar[bool] = True
    """Whether its readers see where documents begin and end."""
    numbered: ClassVar[bool] = False
    """Whether names of files depend on the number of a unit, which the whole output alone gives."""
    masks: ClassVar[str | None]
    """Where loss masks go, for people; None: the layout has no place for them."""

    @property
    def options(self) -> dict[str, Any]:
        """The options as JSON values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def joined(self) -> int | None:
        """How many sets of files each source and split becomes; None: one a shard."""
        return None

    def check(self, corpus: Corpus) -> None:
        """Refuse an output that the layout cannot hold, before anything is written.

        Raises:
            ExportError: saying why, and what to do.
        """
        del corpus

    @abstractmethod
    def write(self, unit: Unit, corpus: Corpus, target: Target) -> Written:
        """Write the files of a unit, all of them beginning with its name or made of it.

        Raises:
            ExportError: a document cannot be held; says which, and what to do.
        """

    def expected(self, unit: Unit, corpus: Corpus) -> Iterator[Document]:
        """Give the documents of a unit as the layout's readers must see them.

        That is what the native shards hold, unless the layout changes it by rule.
        """
        del corpus
        for batch in unit.batches():
            for ids, mask in batch.documents():
                yield ids, mask if self.masks is not None else None

    @abstractmethod
    def read(self, exported: Exported, corpus: Corpus, folder: Folder) -> Iterator[Document]:
        """Read the files of a unit back, as the layout's readers do.

        Raises:
            CorruptOutputError: a file is not of this layout.
        """

    def finish(
        self, exported: Sequence[Exported], corpus: Corpus, target: Target
    ) -> Mapping[str, int]:
        """Write the files that stand for all units together, if the layout has such.

        Gives the tokens that are written and that readers do not reach, by source and split.
        """
        del exported, corpus, target
        return {}
