"""datatrove: NAME.ds, NAME.ds.index, NAME.ds.loss, NAME.ds.metadata, for its merger and reader.

NAME.ds           ids of 2 or 4 bytes back to back: the native .bin
NAME.ds.index     u64 for each document: its end in tokens; no leading 0
NAME.ds.loss      one byte per id, 1 = train on it: the native .mask
NAME.ds.metadata  three lines: tokenizer|bytes of an id, tokens, tokens for people

Documents without tokens are not in the index, since datatrove's reader computes wrong positions if
two documents end at the same position.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports.layout import (
    WITHOUT_TOKENS,
    Document,
    ExportedUnit,
    Layout,
    Target,
    WrittenUnit,
)
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch
from nanotok_ray.storage import Folder

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, kw_only=True)
class Datatrove(Layout):
    """The files of datatrove's DocumentTokenizer."""

    name: ClassVar[str] = "datatrove"
    format: ClassVar[str] = "datatrove 1"
    reader: ClassVar[str] = "datatrove's DatatroveFolderDataset and DocumentTokenizerMerger"
    keeps_empty: ClassVar[bool] = False
    masks: ClassVar[str | None] = "NAME.ds.loss, a byte for each id"

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Link ids and masks; write the index and the metadata."""
        name = f"{unit.name}.ds"
        target.link(unit, ".bin", name)
        if unit.has_masks:
            target.link(unit, ".mask", f"{name}.loss")
        (index,) = unit.indexes()
        ends = index.positions[1:][index.lengths > 0]
        target.write(f"{name}.index", ends.astype("<u8").tobytes())
        lines = (
            f"{unit.corpus.facts.tokenizer_sha256[:16]}|{unit.item_bytes}",
            str(unit.tokens),
            _format_tokens(unit.tokens),
        )
        target.write(f"{name}.metadata", "\n".join(lines).encode())
        return WrittenUnit(
            documents=len(ends),
            tokens=unit.tokens,
            left_out={WITHOUT_TOKENS: unit.documents - len(ends)},
        )

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Yield the documents between the ends in the index."""
        (name,) = exported.names(".ds")
        ids = np.frombuffer(folder.read_bytes(name), dtype=f"<u{exported.unit.item_bytes}")
        ends = np.frombuffer(folder.read_bytes(f"{name}.index"), dtype="<u8").astype(np.int64)
        mask = exported.array(folder, ".ds.loss", "u1")
        if len(ends) and int(ends[-1]) != len(ids):
            raise CorruptOutputError(f"{folder.join(name)}: its index ends at {ends[-1]}")
        positions = np.concatenate([np.zeros(1, np.int64), ends])
        yield from DocumentBatch(ids=ids, positions=positions, mask=mask).documents()


def _format_tokens(tokens: int) -> str:
    """Return a number of tokens in datatrove's format.

    >>> _format_tokens(1430), _format_tokens(12)
    ('1.43 kT', '12 T')
    """
    for size, letter in _UNITS:
        if tokens >= size:
            return f"{tokens / size:.2f} {letter}T"
    return f"{tokens} T"
