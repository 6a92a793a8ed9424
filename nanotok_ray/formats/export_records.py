"""The records of exports: of a unit, of a scatter file, and export.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from nanotok_ray.formats.codec import Finite, Number, Numbers, Sha256, omitted
from nanotok_ray.formats.records import ItemBytes, ResultRecord, StoredFile


class SourceUse(NamedTuple):
    """The documents of a source that are written, each counted as often as it is written."""

    documents: Number
    tokens: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportRecord(ResultRecord):
    """The record of the files of a unit of an export."""

    FORMAT: ClassVar[str] = "nanotok-export-record 1"

    shards: tuple[str, ...]
    """The names of the native shards, or of the sections of an order."""
    documents: Number
    tokens: Number
    left_out: Numbers
    """Documents that the layout cannot hold, by reason."""
    details: Mapping[str, Any]
    """Values of the layout that its common files need."""
    sources: Mapping[str, SourceUse] = omitted(factory=dict)
    """What the unit has of each source, if its documents are ordered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScatterRecord(ResultRecord):
    """The record of a scatter file: the documents of some shards, by the sections of an order."""

    stage: Literal["scatter"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MixedSource:
    """What an ordered export has of the train documents of a source."""

    documents: Number
    """The number of documents that are written, each counted as often as it is written."""
    tokens: Number
    epochs: Finite
    """The number of documents that are written over that of the source."""
    left_out_documents: Number
    """The number of documents that are not written."""
    left_out_tokens: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderEnd:
    """The end of an order, whose sections have equally many documents."""

    sections: Number
    last_tokens: Number | None
    """The document of the last section that reaches this number of its tokens is the last; None:
    all documents of the section."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderedDocuments:
    """The train documents of an ordered export."""

    end: OrderEnd
    sources: Mapping[str, MixedSource]


@dataclass(frozen=True, kw_only=True, slots=True)
class Export:
    """The content of export.json, which is written last: what an export is made of."""

    FORMAT: ClassVar[str] = "nanotok-export 1"

    layout: str
    layout_format: str
    options: Mapping[str, int | str]
    reader: str
    """The reader of the layout."""
    masks: str | None
    """The form of loss masks; None: the layout has none."""
    item_bytes: ItemBytes
    num_ids: Number
    special_tokens: Numbers
    tokenizer_sha256: Sha256
    manifest_sha256: Sha256
    """The sha256 of the manifest of the exported output."""
    units: Number
    files: Number
    bytes: Number
    documents: Number
    tokens: Number
    left_out: Numbers
    """Documents that the layout cannot hold, by reason."""
    unread_tokens: Numbers
    """Tokens that are written and not reached by readers, by source and split."""
    joint_files: tuple[StoredFile, ...]
    """The files of all units together."""
    mixture: OrderedDocuments | None = omitted()
    """The train documents, if they are ordered."""
