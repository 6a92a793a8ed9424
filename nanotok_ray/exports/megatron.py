"""megatron: PREFIX.bin and PREFIX.idx of Megatron-LM, NeMo and gpt-neox, shards joined.

PREFIX.bin  ids of 2 or 4 bytes back to back; for a single shard the native .bin
PREFIX.idx  the index of its documents, one sequence each; for a single shard the native .idx. Ids
            of 4 bytes are declared as int32, which holds them: Megatron has no uint32

PREFIX is SOURCE/SPLIT/SOURCE_SPLIT_NNNNN_text_document: the shards of each source and split become
`datasets` of these, which are sequences of adjacent shards with about the same number of tokens.
One worker writes each dataset, so more datasets are written by more workers. Megatron-LM expects
prefixes without suffix: --data-path 0.7 DIR/web/train/web_train_00000_text_document 0.3 DIR/...

Megatron-LM cannot hold loss masks. gpt-neox reads them from a second dataset of int32, which
repeats each id that is trained on and has -100 elsewhere, not shifted (gpt-neox shifts both):
SOURCE_SPLIT_NNNNN_text_label_document.bin and .idx, for train_label_data_paths beside
train_data_paths.

Readers map the .bin into memory, which is impossible for an empty file: a dataset without tokens
has no files, and its empty documents are skipped. Empty documents among others are kept; Megatron
reads them.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.layout import Document, ExportedUnit, Layout, Target, WrittenUnit
from nanotok_ray.exports.unit import Unit, batch_bounds
from nanotok_ray.formats import DocumentBatch, DocumentIndex, Mask, index_parts
from nanotok_ray.storage import Folder

_IGNORED = -100
_TEXT, _LABEL = "_text_document", "_text_label_document"
_LABEL_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Megatron(Layout):
    """The datasets of Megatron's IndexedDataset."""

    name: ClassVar[str] = "megatron"
    format: ClassVar[str] = "megatron 1"
    numbered: ClassVar[bool] = True
    reader: ClassVar[str] = "Megatron's IndexedDataset and gpt-neox's MMapIndexedDataset"
    masks: ClassVar[str | None] = (
        "..._text_label_document.bin and .idx, for gpt-neox alone: int32 ids, -100 where the mask "
        "is 0; Megatron-LM has no place for them"
    )

    datasets: int = 1
    """Number of datasets for each source and split, at most the number of its shards."""

    def __post_init__(self) -> None:
        """Refuse invalid numbers.

        Raises:
            ExportError: The message names the number.
        """
        if self.datasets < 1:
            raise ExportError(
                f"layout 'megatron': datasets = {self.datasets}: each source and split becomes at "
                "least 1"
            )

    @property
    def joined(self) -> int | None:
        """Number of datasets of each source and split."""
        return self.datasets

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Link or join ids and indexes; write the labels if masks exist."""
        if not unit.has_tokens:
            left_out = {"no tokens in the whole dataset": unit.documents}
            return WrittenUnit(documents=0, tokens=0, left_out=left_out)
        text, label = f"{_stem(unit)}{_TEXT}", f"{_stem(unit)}{_LABEL}"
        if len(unit.shards) == 1:
            for suffix in (".bin", ".idx"):
                target.link(unit, suffix, text + suffix)
        else:
            with target.create(f"{text}.bin") as file:
                for batch in unit.batches():
                    file.write(batch.ids.data)
            _write_index(unit, target, f"{text}.idx", unit.item_bytes)
        if unit.has_masks:
            with target.create(f"{label}.bin") as file:
                for batch in unit.batches():
                    file.write(_labels(batch).data)
            _write_index(unit, target, f"{label}.idx", _LABEL_BYTES)
        return WrittenUnit(documents=unit.documents, tokens=unit.tokens)

    def expected(self, unit: Unit) -> Iterator[Document]:
        """Yield the documents of a unit; nothing if the unit has no tokens."""
        for batch in unit.batches() if unit.has_tokens else ():
            yield from batch.documents()

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Split ids and labels by the index, one part of the dataset at a time."""
        unit = exported.unit
        for name in exported.names(f"{_TEXT}.bin"):
            positions = _positions(name, unit.item_bytes, folder)
            labels = exported.names(f"{_LABEL}.bin")
            if labels and not np.array_equal(
                _positions(labels[0], _LABEL_BYTES, folder), positions
            ):
                raise CorruptOutputError(
                    f"{folder.join(labels[0])} has other documents than {name}"
                )
            batch = unit.batch_bytes // unit.item_bytes
            yield from _documents(folder, [name, *labels], positions, unit.item_bytes, limit=batch)


def _stem(unit: Unit) -> str:
    return f"{unit.source}/{unit.split}/{unit.source}_{unit.split}_{unit.number:05d}"


def _labels(batch: DocumentBatch) -> npt.NDArray[np.int32]:
    assert batch.mask is not None
    return np.where(batch.mask, batch.ids.astype("<i4"), np.int32(_IGNORED))


def _write_index(unit: Unit, target: Target, name: str, item_bytes: int) -> None:
    lengths = [index.lengths for index in unit.indexes()]
    with target.create(name) as file:
        for part in index_parts(lengths, item_bytes=item_bytes):
            file.write(part)


def _positions(name: str, item_bytes: int, folder: Folder) -> npt.NDArray[np.int64]:
    """Read the token positions of the documents and the end from the index of a dataset."""
    index = f"{name.removesuffix('.bin')}.idx"
    data = np.frombuffer(folder.read_bytes(index), dtype=np.uint8)
    documents = DocumentIndex(data, name=folder.join(index))
    documents.check_sequences()
    if documents.item_bytes != item_bytes or folder.size(name) != documents.tokens * item_bytes:
        raise CorruptOutputError(f"{folder.join(name)} is not what its index says")
    return documents.positions


def _documents(
    folder: Folder,
    names: Sequence[str],
    positions: npt.NDArray[np.int64],
    item_bytes: int,
    *,
    limit: int,
) -> Iterator[Document]:
    """Yield the documents of a file of ids, with masks if a file of labels follows it.

    At most `limit` ids are read at a time, unless a document has more.
    """
    with ExitStack() as stack:
        ids_file, *label_files = (stack.enter_context(folder.open(name)) for name in names)
        for first, last in batch_bounds(positions, limit):
            bounds = positions[first : last + 1] - positions[first]
            data = ids_file.read(int(bounds[-1]) * item_bytes)
            ids, mask = np.frombuffer(data, dtype=f"<u{item_bytes}"), None
            if label_files:
                labels = np.frombuffer(label_files[0].read(len(ids) * _LABEL_BYTES), dtype="<i4")
                mask = _mask(ids.astype(np.int32), labels, name=folder.join(names[1]))
            yield from DocumentBatch(ids=ids, positions=bounds, mask=mask).documents()


def _mask(ids: npt.NDArray[np.int32], labels: npt.NDArray[np.int32], *, name: str) -> Mask:
    mask = np.asarray(labels != _IGNORED, dtype=np.uint8)
    if not np.array_equal(labels, np.where(mask, ids, _IGNORED)):
        raise CorruptOutputError(f"{name} has a label that is neither the id of its token nor -100")
    return mask
