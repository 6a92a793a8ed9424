"""mds: the files of mosaicml-streaming's MDSWriter, one dataset for each source and split.

NAME.PPPPP.mds           parts of a unit, each at most `size_limit` bytes, or of one document
SOURCE/SPLIT/index.json  all parts of that source and split, in order

A part is u32 samples, u32 where each sample begins and the last ends (from the start of the file),
the columns as JSON, then the samples. A sample is the u32 size of each column, then the columns:
`id` in UTF-8 where documents have ids, `loss_mask` of chats as u8, `tokens` as u16 or u32. Arrays
begin with their shape: a byte 4 | k, then the length in 1 << k bytes. Streaming has no array of
length 0: documents without a token are left out.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Final

import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.export.corpus import Corpus
from nanotok_ray.export.layout import Document, Exported, Layout, Written
from nanotok_ray.export.mds_part import HASH, Part, array_of, config_bytes, documents_of, sample_of
from nanotok_ray.export.native import Batch
from nanotok_ray.export.target import Target
from nanotok_ray.export.unit import Unit
from nanotok_ray.storage import Folder

_LEAST = 1 << 12
_REACH = 1 << 32
"""Positions in a part are u32."""

_WITHOUT_TOKENS: Final = "documents without a token"


@dataclass(frozen=True, kw_only=True)
class Mds(Layout):
    """Parts and indices that StreamingDataset opens, with their sha1."""

    name: ClassVar[str] = "mds"
    format: ClassVar[str] = "mds 1"
    reader: ClassVar[str] = "mosaicml-streaming's StreamingDataset(local=SOURCE/SPLIT)"
    masks: ClassVar[str | None] = "column loss_mask, a byte for each id"

    size_limit: int = 1 << 26
    """Bytes of a part, unless a single document has more."""

    def __post_init__(self) -> None:
        """Refuse limits that the format or common sense cannot have.

        Raises:
            ExportError: naming the limits.
        """
        if not _LEAST <= self.size_limit < _REACH:
            raise ExportError(
                f"layout 'mds': size_limit = {self.size_limit} bytes is not at least {_LEAST} and "
                f"below {_REACH}, as positions in a part have 4 bytes"
            )

    def write(self, unit: Unit, corpus: Corpus, target: Target) -> Written:
        """Write the parts of a unit."""
        del corpus
        parts: list[dict[str, Any]] = []
        part = Part(config=config_bytes(self._config(unit)))
        tokens, left_out = 0, 0
        for number, (ids, sample) in enumerate(_samples(unit)):
            if not len(ids):
                left_out += 1
                continue
            if part.size_with(sample) > self.size_limit and part.sizes:
                parts.append(part.write(_part_name(unit, len(parts)), target))
                part = Part(config=part.config)
            _check_reach(part.size_with(sample), unit, number)
            part.add(sample)
            tokens += len(ids)
        if part.sizes:
            parts.append(part.write(_part_name(unit, len(parts)), target))
        return Written(
            documents=unit.documents - left_out,
            tokens=tokens,
            left_out={_WITHOUT_TOKENS: left_out} if left_out else {},
            details={"parts": parts},
        )

    def expected(self, unit: Unit, corpus: Corpus) -> Iterator[Document]:
        """Give the documents that have a token."""
        return (each for each in super().expected(unit, corpus) if len(each[0]))

    def read(self, exported: Exported, corpus: Corpus, folder: Folder) -> Iterator[Document]:
        """Take the columns of each sample of each part."""
        del corpus
        config = self._config(exported.unit)
        source_split = exported.unit.name.rpartition("/")[0]
        for part in exported.written.details["parts"]:
            name = f"{source_split}/{part['basename']}"
            data = folder.read_bytes(name)
            if hashlib.sha1(data, usedforsecurity=False).hexdigest() != part[HASH]:
                raise CorruptOutputError(f"{folder.join(name)} has another sha1 than its record")
            yield from documents_of(data, config, samples=part["samples"], name=folder.join(name))

    def finish(
        self, exported: Sequence[Exported], corpus: Corpus, target: Target
    ) -> Mapping[str, int]:
        """Write the index of each source and split."""
        del corpus
        for (source, split), units in groupby(exported, _place):
            shards = [
                self._index_entry(each.unit, part)
                for each in units
                for part in each.written.details["parts"]
            ]
            index = json.dumps({"version": 2, "shards": shards}, sort_keys=True)
            target.write(f"{source}/{split}/index.json", index.encode())
        return {}

    def _index_entry(self, unit: Unit, part: Mapping[str, Any]) -> dict[str, Any]:
        hashes = {HASH: part[HASH]}
        raw_data = {"basename": part["basename"], "bytes": part["bytes"], "hashes": hashes}
        own = {"samples": part["samples"], "raw_data": raw_data, "zip_data": None}
        return self._config(unit) | own

    def _config(self, unit: Unit) -> dict[str, Any]:
        """Give what each part and the index say of the columns."""
        columns = _columns(unit)
        return {
            "version": 2,
            "format": "mds",
            "compression": None,
            "hashes": [HASH],
            "size_limit": self.size_limit,
            "column_names": list(columns),
            "column_encodings": list(columns.values()),
            "column_sizes": [None] * len(columns),
        }


def _place(exported: Exported) -> tuple[str, str]:
    return exported.unit.source, exported.unit.split


def _columns(unit: Unit) -> dict[str, str]:
    """Give the encoding of each column, by name: the order that samples have."""
    columns = {"id": "str"} if unit.has_document_ids else {}
    if unit.has_masks:
        columns["loss_mask"] = "ndarray:uint8"
    return columns | {"tokens": f"ndarray:uint{8 * unit.item_bytes}"}


def _samples(unit: Unit) -> Iterator[tuple[npt.NDArray[Any], bytes]]:
    """Give the ids of every document and its sample."""
    for batch in unit.batches():
        for number, (ids, mask) in enumerate(batch.documents()):
            columns = [] if mask is None else [array_of(mask)]
            yield ids, sample_of([*_id_column(batch, number), *columns, array_of(ids)])


def _id_column(batch: Batch, number: int) -> list[bytes]:
    return [] if batch.document_ids is None else [batch.document_ids[number].encode()]


def _part_name(unit: Unit, number: int) -> str:
    return f"{unit.name}.{number:05d}.mds"


def _check_reach(size: int, unit: Unit, number: int) -> None:
    """Refuse a document that does not fit into a part of its own.

    Raises:
        ExportError: naming it.
    """
    if size >= _REACH:
        raise ExportError(
            f"document {number} of {unit.name} alone makes a part of {size:,} bytes; mds reaches "
            f"{_REACH - 1:,}, as positions in a part have 4 bytes: leave it out of the corpus, or "
            "export to a layout without this limit"
        )
