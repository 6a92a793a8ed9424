"""parquet: NAME.parquet, one row per document, for `datasets` and TRL's SFTTrainer.

input_ids        list<int32>
assistant_masks  list<int8>, 1 = train on it; for chats and vision documents. With mask_column it
                 is completion_mask instead, which TRL uses only with completion_only_loss=True, or
                 labels: list<int32>, the id if it is trained on, otherwise -100
id               string, null for an empty id; only with an id_column
image_spans      list<struct<start: int32, end: int32>>, half-open positions in input_ids; only
                 with images. The name is not `images`, since TRL expects pictures with messages
                 in a column of that name

TRL does not tokenize rows with input_ids. Its assistant_only_loss stays off: it is for rows with
messages, and assistant_masks are used without it. Sources have different columns: load one source
at a time. Row groups are batches of the native shard. The metadata of the file names the layout
and the tokenizer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.layout import Document, ExportedUnit, Layout, Target, WrittenUnit
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch, Images
from nanotok_ray.storage import Folder, arrow_sink

_IDS: Final = "input_ids"
LABELS: Final = "labels"
"""The column of the ids that are trained on, and of NOT_TRAINED elsewhere."""
_MASK_COLUMNS = {
    "assistant_masks": pa.list_(pa.int8()),
    "completion_mask": pa.list_(pa.int8()),
    LABELS: pa.list_(pa.int32()),
}
_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])
NOT_TRAINED: Final = -100
_MAX_IDS = 1 << 31
"""Limit of int32, and of the number of values of a list."""


@dataclass(frozen=True, kw_only=True)
class Parquet(Layout):
    """A table of tokenized documents."""

    name: ClassVar[str] = "parquet"
    format: ClassVar[str] = "parquet 1"
    reader: ClassVar[str] = (
        "datasets.load_dataset('parquet', data_files=...) of one source, pyarrow, and TRL's "
        "SFTTrainer, which tokenizes nothing again"
    )
    masks: ClassVar[str | None] = (
        "column assistant_masks, 0 or 1 for each id; or what mask_column names: completion_mask, "
        "labels with -100"
    )

    mask_column: str = "assistant_masks"
    """The column of masks: assistant_masks, completion_mask or labels."""

    def check(self, corpus: Corpus) -> None:
        """Refuse a column that TRL does not know, and ids that exceed int32.

        Raises:
            ExportError: The message names the valid columns, or the limit.
        """
        if self.mask_column not in _MASK_COLUMNS:
            raise ExportError(
                f"layout 'parquet': mask_column = {self.mask_column!r}; there are "
                f"{', '.join(_MASK_COLUMNS)}"
            )
        refuse_large_ids(self.name, corpus)

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Write one row group per batch.

        Raises:
            ExportError: A document is too long for a list.
        """
        schema = self._schema(unit)
        with (
            target.create(f"{unit.name}.parquet") as file,
            arrow_sink(file) as sink,
            pq.ParquetWriter(sink, schema, compression="zstd") as writer,
        ):
            for batch in unit.batches():
                _refuse_too_long(batch, unit)
                writer.write_batch(self._rows(batch, schema), row_group_size=len(batch))
        return WrittenUnit(documents=unit.documents, tokens=unit.tokens)

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Yield input_ids and mask of each row."""
        (name,) = exported.names(".parquet")
        file = opened_table(folder, name, self._schema(exported.unit))
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number)
            for ids, mask in self._documents(rows, name=folder.join(name)):
                yield ids, mask if exported.unit.has_masks else None

    def _schema(self, unit: Unit) -> Any:  # noqa: ANN401 - pyarrow has no types
        columns = [(_IDS, pa.list_(pa.int32()))]
        if unit.has_masks:
            columns.append((self.mask_column, _MASK_COLUMNS[self.mask_column]))
        if unit.has_document_ids:
            columns.append(("id", pa.string()))
        if unit.has_images:
            columns.append(("image_spans", pa.list_(_SPAN)))
        sha256 = unit.corpus.facts.tokenizer_sha256
        return pa.schema(columns, metadata={"layout": self.format, "tokenizer_sha256": sha256})

    def _rows(self, batch: DocumentBatch, schema: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return a batch as an Arrow table, sharing its memory where the types are equal."""
        ids = batch.ids.view(np.int32) if batch.ids.itemsize == 4 else batch.ids.astype(np.int32)  # noqa: PLR2004 - bytes
        columns = {_IDS: _lists(batch.positions, pa.array(ids))}
        if self.mask_column in schema.names:
            mask = np.zeros(0, np.int8) if batch.mask is None else batch.mask.view(np.int8)
            if self.mask_column == LABELS:
                mask = np.where(mask != 0, ids, np.int32(NOT_TRAINED))
            columns[self.mask_column] = _lists(batch.positions, pa.array(mask))
        if batch.document_ids is not None:
            columns["id"] = pa.array(
                [batch.document_id(number) or None for number in range(len(batch))], pa.string()
            )
        if batch.images is not None:
            columns["image_spans"] = _spans(batch.images, documents=len(batch))
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def _documents(self, rows: Any, *, name: str) -> Iterator[Document]:  # noqa: ANN401
        """Yield the documents of a row group.

        Raises:
            CorruptOutputError: A mask or labels contradict the ids.
        """
        ids, positions = column_of(rows, _IDS)
        mask = None
        if self.mask_column in rows.schema.names:
            mask_values, mask_positions = column_of(rows, self.mask_column)
            if not np.array_equal(positions, mask_positions):
                raise CorruptOutputError(f"{name}: {self.mask_column} is not one for each id")
            mask = (
                mask_values.view(np.uint8)
                if self.mask_column != LABELS
                else mask_of(mask_values, ids, name)
            )
        batch = DocumentBatch(ids=ids.view(np.uint32), positions=positions, mask=mask)
        yield from batch.documents()


def refuse_large_ids(layout: str, corpus: Corpus) -> None:
    """Refuse ids that exceed int32.

    Raises:
        ExportError: The message names the limit.
    """
    if corpus.num_ids > _MAX_IDS:
        raise ExportError(
            f"layout {layout!r}: ids up to {corpus.num_ids - 1:,} do not fit list<int32>, which "
            f"datasets and TRL take: {_MAX_IDS - 1:,} at most; take another layout"
        )


def opened_table(folder: Folder, name: str, schema: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Open a Parquet file that has these columns.

    Raises:
        CorruptOutputError: It is no Parquet file, or has other columns.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(folder.read_bytes(name)))
    except pa.ArrowInvalid as error:
        raise CorruptOutputError(f"{folder.join(name)} is not a Parquet file: {error}") from error
    if not file.schema_arrow.equals(schema):
        raise CorruptOutputError(f"{folder.join(name)} has other columns than it should")
    return file


def mask_of(labels: npt.NDArray[Any], ids: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    """Return the mask of labels, 1 for the ids that are trained on.

    Raises:
        CorruptOutputError: A label is neither the id nor NOT_TRAINED.
    """
    mask: npt.NDArray[np.bool_] = labels != NOT_TRAINED
    if not np.array_equal(labels[mask], ids[mask]):
        raise CorruptOutputError(f"{name}: labels are neither {NOT_TRAINED} nor the id")
    return mask.astype(np.uint8)


def _lists(positions: npt.NDArray[np.int64], values: Any) -> Any:  # noqa: ANN401 - pyarrow
    """Return values as lists with these starts and ends."""
    return pa.ListArray.from_arrays(pa.array(positions.astype(np.int32)), values)


def _spans(images: Images, *, documents: int) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return start and end of the images of each document."""
    positions = np.searchsorted(images[:, 0], np.arange(documents + 1))
    bounds = [pa.array(images[:, column].astype(np.int32)) for column in (1, 2)]
    return _lists(positions, pa.StructArray.from_arrays(bounds, fields=list(_SPAN)))


def column_of(rows: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:  # noqa: ANN401
    """Return the values of a column of lists, and the n + 1 positions of the lists."""
    lists = rows.column(name).combine_chunks()
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    positions = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    return lists.flatten().to_numpy(zero_copy_only=False), positions


def _refuse_too_long(batch: DocumentBatch, unit: Unit) -> None:
    """Refuse a document that exceeds a list; batches of several documents are far smaller."""
    tokens = int(batch.positions[-1])
    if tokens >= _MAX_IDS:
        raise ExportError(
            f"layout 'parquet': a document of {unit.name} has {tokens:,} ids, a list holds "
            f"{_MAX_IDS - 1:,} at most; set max_document_bytes, or take another layout"
        )
