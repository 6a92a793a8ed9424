"""llmc: the .bin files of llm.c, modded-nanogpt and nemo-automodel, whose documents begin with BOS.

SOURCE_SPLIT_NNNNNN.bin      i32[256] header, then ids back to back
SOURCE_SPLIT_NNNNNN.bos.idx  i32 for each document: the position of its BOS in tokens

The header is 20240520, 1, tokens, 0, ... for ids of 2 bytes, and that of llama-3 for ids of 4:
20240801, 7, tokens, 0, ...

The files are in SOURCE/SPLIT/. NNNNNN is the shard's number in its source and split, so that the
order of names, which glob uses, is the order of the output. A shard that is too large for one file
becomes SOURCE_SPLIT_NNNNNN_PPPP.bin, split between documents. A shard without documents has no
files, since llm.c refuses empty ones.

Arguments of the readers, for an export in DIR:

llm.c            -i "DIR/web/train/web_train_*.bin" -j "DIR/web/val/web_val_*.bin"; requires more
                 than B * T * processes tokens in every file, and reads only ids of 2 bytes
train_llama3.py  the same globs, ids of 4 bytes
modded-nanogpt   the same globs as train_files and val_files, and the id of BOS for its 50256
nemo-automodel   file_pattern "DIR/web/train/web_train_*.bin", bos_token; ids of 2 bytes

A source without a val split has only train files: in llm.c's own data the first file is the val
one, but its readers use the two globs. Readers find documents by BOS, so each document must begin
with it and not contain it elsewhere. llm.c converts positions in a file to int, which limits their
size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import ClassVar, NoReturn

import numpy as np

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.corpus import Corpus, SourceFacts
from nanotok_ray.exports.layout import Document, ExportedUnit, Layout, Target, WrittenUnit
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch, DocumentIndex, Ids
from nanotok_ray.storage import Folder

_HEADER_BYTES = 1024
_BEGINNINGS = {2: (20240520, 1), 4: (20240801, 7)}
"""Magic and version by bytes of an id."""

MAX_FILE_BYTES = 2**31 - 1
MAX_UNITS = 10**6


@dataclass(frozen=True, kw_only=True)
class Llmc(Layout):
    """The files of llm.c's data scripts."""

    name: ClassVar[str] = "llmc"
    format: ClassVar[str] = "llmc 1"
    numbered: ClassVar[bool] = True
    reader: ClassVar[str] = "llm.c, modded-nanogpt, and nemo-automodel's NanogptDataset"
    masks: ClassVar[str | None] = None

    bos: str = "<|bos|>"
    """Name of the special token that begins every document."""

    def check(self, corpus: Corpus) -> None:
        """Refuse an output without that token, and text sources whose documents lack it.

        Raises:
            ExportError: The message names the source and the next step.
        """
        if self.bos not in corpus.special_tokens:
            known = ", ".join(sorted(corpus.special_tokens)) or "none"
            raise ExportError(
                f"layout 'llmc': the tokenizer has no special token {self.bos!r} that documents "
                f"could begin with; there are: {known}; name one with llmc:bos=NAME"
            )
        for source in corpus.sources:
            if source.kind == "text":
                self._check_source(source, corpus.special_tokens[self.bos])

    def _check_source(self, source: SourceFacts, bos: int) -> None:
        if source.prepend[:1] != (bos,):
            raise ExportError(
                f"layout 'llmc': documents of source {source.name!r} do not begin with {self.bos}, "
                f'by which readers find them; tokenize with source.prepend = ["{self.bos}"], or '
                "name the token that they begin with: llmc:bos=NAME"
            )
        if bos in source.prepend[1:] + source.append:
            raise ExportError(
                f"layout 'llmc': documents of source {source.name!r} hold {self.bos} twice, and "
                "readers would see two documents; remove it from source.append, and name it once "
                "in source.prepend"
            )

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Write header and ids file by file, and the positions of the documents.

        Raises:
            ExportError: A document does not begin with BOS, contains it again, or is too large.
        """
        (index,) = unit.indexes()
        positions, bos = index.positions, unit.corpus.special_tokens[self.bos]
        bounds = self._bounds(unit, index)
        stems = _stems(unit, len(bounds) - 1)
        pieces = _pieces(self._checked(unit, bos), bounds)
        for part, group in groupby(pieces, key=itemgetter(0)):
            part_positions = positions[bounds[part] : bounds[part + 1] + 1]
            with target.create(f"{stems[part]}.bin") as file:
                file.write(_header(int(part_positions[-1] - part_positions[0]), unit.item_bytes))
                for _, ids in group:
                    file.write(ids.data)
            target.write(
                f"{stems[part]}.bos.idx",
                (part_positions[:-1] - part_positions[0]).astype("<i4").tobytes(),
            )
        return WrittenUnit(documents=unit.documents, tokens=unit.tokens)

    def _bounds(self, unit: Unit, index: DocumentIndex) -> list[int]:
        """Return the first document of each file, and the number of all documents."""
        limit = (MAX_FILE_BYTES - _HEADER_BYTES) // unit.item_bytes
        positions, lengths = index.positions, index.lengths
        if len(lengths) and int(lengths.max()) > limit:
            document = int(np.argmax(lengths > limit))
            _refuse(
                unit,
                document,
                f"has {lengths[document]:,} tokens, and a file holds at most {limit:,}, because "
                "llm.c stores file offsets as int; lower max_document_bytes in the recipe",
            )
        bounds = [0]
        while bounds[-1] < len(lengths):
            end = positions[bounds[-1]] + limit
            bounds.append(int(np.searchsorted(positions, end, side="right")) - 1)
        return bounds

    def _checked(self, unit: Unit, bos: int) -> Iterator[DocumentBatch]:
        """Yield the batches of a unit after checking that BOS is only at the start of documents."""
        for batch in unit.batches():
            starts = np.flatnonzero(batch.ids == bos)
            if not np.array_equal(starts, batch.positions[:-1]):
                self._refuse_batch(unit, batch, bos)
            yield batch

    def _refuse_batch(self, unit: Unit, batch: DocumentBatch, bos: int) -> NoReturn:
        """Raise an error that names the first invalid document of a batch."""
        for number, (ids, _) in enumerate(batch.documents(), batch.first):
            starts = np.flatnonzero(ids == bos)
            if starts.tolist() == [0]:
                continue
            reason = f"does not begin with {self.bos}, by which readers find documents"
            if starts[:1].tolist() == [0]:
                reason = f"holds {self.bos} again at token {starts[1]}, where readers would cut it"
            _refuse(unit, number, f"{reason}; of text, source.prepend and source.append decide")
        raise AssertionError("no document of the batch is wrong")

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Split the ids of each file before every BOS."""
        bos = exported.unit.corpus.special_tokens[self.bos]
        for name in exported.names(".bin"):
            ids = _read_ids(name, exported.unit.item_bytes, folder)
            starts = np.flatnonzero(ids == bos)
            index = np.frombuffer(folder.read_bytes(f"{name[:-4]}.bos.idx"), dtype="<i4")
            if not np.array_equal(starts, index) or starts[:1].tolist() != [0]:
                raise CorruptOutputError(f"{folder.join(name)}: .bos.idx says other documents")
            for start, end in pairwise([*starts.tolist(), len(ids)]):
                yield ids[start:end], None


def _refuse(unit: Unit, document: int, reason: str) -> NoReturn:
    raise ExportError(
        f"layout 'llmc': source {unit.source!r}, shard {unit.name}, document {document} {reason}"
    )


def _stems(unit: Unit, files: int) -> list[str]:
    """Return the path of each file of a unit without suffix."""
    if unit.number >= MAX_UNITS:
        raise ExportError(
            f"layout 'llmc': {unit.name} is shard {unit.number:,} of its source and split; names "
            f"that stay in order have room for {MAX_UNITS:,}: tokenize into larger shards"
        )
    stem = f"{unit.source}/{unit.split}/{unit.source}_{unit.split}_{unit.number:06d}"
    return [stem] if files == 1 else [f"{stem}_{part:04d}" for part in range(files)]


def _pieces(batches: Iterator[DocumentBatch], bounds: list[int]) -> Iterator[tuple[int, Ids]]:
    """Yield the ids of all batches in order, each with the index of its file."""
    part = 0
    for batch in batches:
        first, last = batch.first, batch.first + len(batch)
        while first < last:
            part += first >= bounds[part + 1]
            end = min(last, bounds[part + 1])
            cut = batch.positions[[first - batch.first, end - batch.first]]
            yield part, batch.ids[cut[0] : cut[1]]
            first = end


def _header(tokens: int, item_bytes: int) -> bytes:
    header = np.zeros(_HEADER_BYTES // 4, dtype="<i4")
    header[:3] = (*_BEGINNINGS[item_bytes], tokens)
    return header.tobytes()


def _read_ids(name: str, item_bytes: int, folder: Folder) -> Ids:
    data = folder.read_bytes(name)
    tokens = (len(data) - _HEADER_BYTES) // item_bytes
    if (
        len(data) != _HEADER_BYTES + tokens * item_bytes
        or tokens < 1
        or data[:_HEADER_BYTES] != _header(tokens, item_bytes)
    ):
        raise CorruptOutputError(f"{folder.join(name)} has no header of its {tokens:,} tokens")
    return np.frombuffer(data, dtype=f"<u{item_bytes}", offset=_HEADER_BYTES)
