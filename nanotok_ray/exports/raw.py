"""raw: ids without header and a NumPy file of offsets, for nanoGPT, torchtitan and numpy.

NAME.bin          ids of 2 or 4 bytes back to back: the native .bin
NAME.offsets.npy  int64: the start of each document in tokens, and the end of the last
NAME.mask         one byte per id, 1 = train on it: the native .mask
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports.layout import Document, ExportedUnit, Layout, Target, WrittenUnit
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True)
class Raw(Layout):
    """Ids, offsets and masks that numpy maps directly."""

    name: ClassVar[str] = "raw"
    format: ClassVar[str] = "raw 1"
    reader: ClassVar[str] = "numpy.memmap and numpy.load, as nanoGPT and torchtitan do"
    masks: ClassVar[str | None] = "NAME.mask, a byte for each id"

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Link ids and masks; write the offsets."""
        target.link(unit, ".bin", f"{unit.name}.bin")
        if unit.has_masks:
            target.link(unit, ".mask", f"{unit.name}.mask")
        (index,) = unit.indexes()
        offsets = io.BytesIO()
        np.save(offsets, index.positions.astype("<i8"))
        target.write(f"{unit.name}.offsets.npy", offsets.getvalue())
        return WrittenUnit(documents=unit.documents, tokens=unit.tokens)

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Split the ids at the offsets."""
        (name,) = exported.names(".bin")
        ids = np.frombuffer(folder.read_bytes(name), dtype=f"<u{exported.unit.item_bytes}")
        (offsets_name,) = exported.names(".offsets.npy")
        offsets = np.load(io.BytesIO(folder.read_bytes(offsets_name)), allow_pickle=False)
        mask = exported.array(folder, ".mask", "u1")
        if int(offsets[-1]) != len(ids):
            raise CorruptOutputError(f"{folder.join(name)}: its offsets end at {offsets[-1]}")
        yield from DocumentBatch(ids=ids, positions=offsets, mask=mask).documents()
