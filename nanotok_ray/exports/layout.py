"""The interface of a layout, its target folder, and the record of an exported unit."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.order import Order
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import (
    ExportRecord,
    Ids,
    Mask,
    StoredFile,
    from_values,
)
from nanotok_ray.storage import Folder, WrittenFile

WITHOUT_TOKENS = "documents without a token"
"""The reason for which most layouts leave documents out."""

T = TypeVar("T")


class Target:
    """A writer of files below one folder."""

    def __init__(self, folder: Folder) -> None:
        """Store the folder of the files."""
        self.folder = folder
        self._files: dict[str, StoredFile] = {}

    @property
    def files(self) -> tuple[StoredFile, ...]:
        """Every written file, in the order of names."""
        return tuple(self._files[name] for name in sorted(self._files))

    @contextmanager
    def create(self, name: str) -> Iterator[WrittenFile]:
        """Open a file for writing that is published when the block ends without an error."""
        with self.folder.create(name) as file:
            yield file
        self._files[name] = StoredFile(name=name, size=file.size, sha256=file.sha256)

    def write(self, name: str, data: bytes) -> None:
        """Publish a file in one step."""
        with self.create(name) as file:
            file.write(data)

    def write_json(self, name: str, values: object) -> None:
        """Publish values as JSON in one line with sorted keys."""
        self.write(name, json.dumps(values, sort_keys=True).encode())

    def link(self, unit: Unit, suffix: str, name: str) -> None:
        """Publish the ids or the masks of a unit as they are; see `Unit.publish`.

        Raises:
            CorruptOutputError: The native file is missing.
        """
        size, sha256 = unit.publish(suffix, self.folder, name)
        self._files[name] = StoredFile(name=name, size=size, sha256=sha256)


Document = tuple[Ids, Mask | None]
"""Ids and, if the layout can hold it, the loss mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenUnit:
    """The result of writing a unit."""

    documents: int
    """Number of documents in the files."""
    tokens: int
    """Number of token ids in the files, including those that the layout adds."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of documents that the layout cannot hold, by reason."""
    details: object = field(default_factory=dict)
    """A frozen dataclass for `read` and `finish`, stored in the record."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedUnit:
    """An exported unit according to its record, for `finish` and for reading back."""

    unit: Unit
    record: ExportRecord

    def details(self, kind: type[T]) -> T:
        """Return the details of the record as the dataclass that was written.

        Raises:
            CorruptOutputError: The details are not of this type.
        """
        return from_values(kind, self.record.details, name=record_name(self.unit))

    def array(self, folder: Folder, suffix: str, dtype: str) -> npt.NDArray[Any] | None:
        """Return the content of its only file with this suffix, or None without such a file."""
        names = self.names(suffix)
        return np.frombuffer(folder.read_bytes(names[0]), dtype=dtype) if names else None

    def names(self, suffix: str) -> list[str]:
        """Return the sorted names of its files with this suffix."""
        return sorted(file.name for file in self.record.files if file.name.endswith(suffix))


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """A layout with its options."""

    name: ClassVar[str]
    format: ClassVar[str]
    """Name and version; a new version is exported again."""
    reader: ClassVar[str]
    """The software that reads the layout, for people."""
    keeps_documents: ClassVar[bool] = True
    """Whether its readers know where documents begin and end."""
    keeps_empty: ClassVar[bool] = True
    """Whether the files hold documents without a token."""
    numbered: ClassVar[bool] = False
    """Whether file names depend on the number of a unit, which only the whole output determines."""
    masks: ClassVar[str | None]
    """The place of loss masks, for people; None: the layout cannot hold masks."""

    order: Order | None = None
    """The order of the train documents; None: that of the output."""

    @property
    def options(self) -> dict[str, int | str]:
        """The options as JSON values, with those of the order."""
        return self.own_options | ({} if self.order is None else self.order.options)

    @property
    def own_options(self) -> dict[str, int | str]:
        """The options on which the files of a unit depend, as JSON values."""
        return {name: getattr(self, name) for name in self.option_types()}

    @classmethod
    def option_types(cls) -> dict[str, object]:
        """The type of each option that the layout has besides those of the order."""
        return {option.name: option.type for option in fields(cls) if option.name != "order"}

    @property
    def is_by_slice(self) -> bool:
        """Whether its files are those of single shards, so that workers write them with these."""
        return self.joined is None and not self.numbered and self.order is None

    @property
    def joined(self) -> int | None:
        """Number of sets of files for each source and split; None: one for each shard."""
        return None

    def check(self, corpus: Corpus) -> None:
        """Refuse an output that the layout cannot hold, before anything is written.

        Raises:
            ExportError: The message names the reason and the next step.
        """
        del corpus

    @abstractmethod
    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Write the files of a unit, whose names begin with the unit's name or are derived from it.

        Raises:
            ExportError: A document cannot be held; the message names it and the next step.
        """

    def expected(self, unit: Unit) -> Iterator[Document]:
        """Yield the documents of a unit as the readers of the layout must see them.

        These are the documents of the native shards, unless the layout changes them by a rule.
        """
        for batch in unit.batches():
            for ids, mask in batch.documents():
                if len(ids) or self.keeps_empty:
                    yield ids, mask if self.masks is not None else None

    @abstractmethod
    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Read the files of a unit as the readers of the layout do.

        Raises:
            CorruptOutputError: A file is not of this layout.
        """

    def finish(self, exported: Sequence[ExportedUnit], target: Target) -> Mapping[str, int]:
        """Write the files of all units together, if the layout has such files.

        Return the tokens that are written but not reached by readers, by source and split.
        """
        del exported, target
        return {}


def by_split(exported: Sequence[ExportedUnit]) -> Iterator[tuple[str, list[ExportedUnit]]]:
    """Yield `SOURCE/SPLIT` and the units of each source and split."""
    for folder, units in groupby(exported, lambda item: f"{item.unit.source}/{item.unit.split}"):
        yield folder, list(units)


RECORDS = "records/"
"""The folder of records in the folder of an export."""


def record_name(unit: Unit) -> str:
    """Return the path of a unit's record in the folder of an export."""
    return f"{RECORDS}{unit.name}.json"
