"""packed: NAME.parquet, rows of whole conversations for fine-tuning with transformers and TRL.

input_ids      list<int32>, the ids of the conversations of a row, `length` at most
labels         list<int32>, the id if it is trained on, otherwise -100
position_ids   list<int32>, from 0 in each conversation, which FlashAttention separates by them
seq_lengths    list<int32>, the tokens of each conversation, from which TRL makes position_ids if
               it trains without padding

A row is packed by the rule of `Loader(packing="conversations")`, with the conversations of one
native shard in their order: each place gets the largest of the next `buffer_size` conversations
that fits. No conversation is cut. Those with more than `length` tokens, or without a token to
train on, are left out. The first token of a conversation has no context and is not trained on; all
others of a document without a mask are.

Rows have no padding. packing.json has, for each source and split, the rows, the tokens, the tokens
of padding that rows of `length` tokens would need, and the tokens of what was left out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.layout import (
    Document,
    ExportedUnit,
    Layout,
    Target,
    WrittenUnit,
    by_split,
)
from nanotok_ray.exports.parquet import (
    LABELS,
    NOT_TRAINED,
    column_of,
    mask_of,
    opened_table,
    refuse_large_ids,
)
from nanotok_ray.exports.unit import BATCH_BYTES, Unit
from nanotok_ray.loader.conversations import best_fit_rows
from nanotok_ray.loader.settings import MAX_LENGTH
from nanotok_ray.storage import Folder, arrow_sink

_COLUMNS = ("input_ids", LABELS, "position_ids", "seq_lengths")
_ROW_GROUP_TOKENS = BATCH_BYTES // 4
_UNTRAINED = "documents without a token to train on"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Details:
    rows: int
    left_out_tokens: int


@dataclass(frozen=True, kw_only=True)
class Packed(Layout):
    """A table of rows of whole conversations."""

    name: ClassVar[str] = "packed"
    format: ClassVar[str] = "packed 1"
    reader: ClassVar[str] = (
        "datasets.load_dataset('parquet', data_files=...), transformers' Trainer and TRL's "
        "SFTTrainer, which tokenize and pack nothing again"
    )
    masks: ClassVar[str | None] = "column labels, -100 for what is not trained on"

    length: int = 4096
    """Limit of the tokens of a row."""
    buffer_size: int = 100
    """Number of conversations to choose from."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ExportError: One is out of its range.
        """
        for name, minimum, maximum in (("length", 2, MAX_LENGTH), ("buffer_size", 1, 1 << 20)):
            value = getattr(self, name)
            if not minimum <= value <= maximum:
                raise ExportError(
                    f"layout 'packed': {name} = {value} is not a number from {minimum} to {maximum}"
                )

    def check(self, corpus: Corpus) -> None:
        """Refuse ids that exceed int32.

        Raises:
            ExportError: The message names the limit.
        """
        refuse_large_ids(self.name, corpus)

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Pack the documents, and write the rows in groups of about 4 million tokens."""
        packing = _Packing(unit=unit, layout=self)
        num_rows = 0
        with (
            target.create(f"{unit.name}.parquet") as file,
            arrow_sink(file) as sink,
            pq.ParquetWriter(sink, _schema(unit, self.format), compression="zstd") as writer,
        ):
            for rows in _groups(packing.rows()):
                writer.write_batch(_table_of(rows, writer.schema), row_group_size=len(rows))
                num_rows += len(rows)
        return WrittenUnit(
            documents=unit.documents - packing.left_out.total(),
            tokens=unit.tokens - packing.left_out_tokens,
            left_out=packing.left_out,
            details=_Details(rows=num_rows, left_out_tokens=packing.left_out_tokens),
        )

    def expected(self, unit: Unit) -> Iterator[Document]:
        """Yield the documents in the order of the rows, with the masks of their labels."""
        for row in _Packing(unit=unit, layout=self).rows():
            yield from row

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Split each row by seq_lengths, and compare position_ids with them.

        Raises:
            CorruptOutputError: The file is not of this layout.
        """
        (name,) = exported.names(".parquet")
        file = opened_table(folder, name, _schema(exported.unit, self.format))
        for number in range(file.num_row_groups):
            yield from self._documents(file.read_row_group(number), name=folder.join(name))

    def _documents(self, rows: Any, *, name: str) -> Iterator[Document]:  # noqa: ANN401 - pyarrow
        ids, row_ends = column_of(rows, "input_ids")
        labels, label_ends = column_of(rows, LABELS)
        positions, position_ends = column_of(rows, "position_ids")
        lengths, length_ends = column_of(rows, "seq_lengths")
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        same = all(np.array_equal(row_ends, other) for other in (label_ends, position_ends))
        if not same or not np.array_equal(ends[length_ends], row_ends):
            raise CorruptOutputError(f"{name}: the columns of a row differ in their length")
        if len(row_ends) > 1 and int(np.diff(row_ends).max()) > self.length:
            raise CorruptOutputError(f"{name} has a row of more than {self.length:,} tokens")
        if not np.array_equal(positions, np.arange(len(ids)) - np.repeat(ends[:-1], lengths)):
            raise CorruptOutputError(f"{name}: position_ids are not those of seq_lengths")
        mask = mask_of(labels, ids, name)
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            yield ids[start:end].view(np.uint32), mask[start:end]

    def finish(self, exported: Sequence[ExportedUnit], target: Target) -> Mapping[str, int]:
        """Write packing.json."""
        report = {}
        for place, units in by_split(exported):
            details = [unit.details(_Details) for unit in units]
            rows = sum(one.rows for one in details)
            tokens = sum(unit.record.tokens for unit in units)
            report[place] = {
                "rows": rows,
                "documents": sum(unit.record.documents for unit in units),
                "tokens": tokens,
                "padding": rows * self.length - tokens,
                "left_out_tokens": sum(one.left_out_tokens for one in details),
            }
        target.write("packing.json", f"{json.dumps(report, indent=1, sort_keys=True)}\n".encode())
        return {}


@dataclass(kw_only=True)
class _Packing:
    """The rows of a unit; what was left out is known after the last one."""

    unit: Unit
    layout: Packed
    left_out: Counter[str] = field(default_factory=Counter)
    left_out_tokens: int = 0

    def rows(self) -> Iterator[list[Document]]:
        """Yield the documents of each row."""
        return best_fit_rows(
            self._documents(), length=self.layout.length, buffer_size=self.layout.buffer_size
        )

    def _documents(self) -> Iterator[Document]:
        for batch in self.unit.batches():
            for ids, mask in batch.documents():
                trained = np.ones(len(ids), np.uint8) if mask is None else mask.copy()
                trained[:1] = 0
                reason = None
                if len(ids) > self.layout.length:
                    reason = f"documents of more than {self.layout.length:,} tokens"
                elif not trained.any():
                    reason = _UNTRAINED
                if reason is None:
                    yield ids, trained
                else:
                    self.left_out[reason] += 1
                    self.left_out_tokens += len(ids)


def _groups(rows: Iterator[list[Document]]) -> Iterator[list[list[Document]]]:
    group: list[list[Document]] = []
    tokens = 0
    for row in rows:
        group.append(row)
        tokens += sum(len(ids) for ids, _ in row)
        if tokens >= _ROW_GROUP_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group


def _schema(unit: Unit, layout: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    sha256 = unit.corpus.facts.tokenizer_sha256
    return pa.schema(
        [(name, pa.list_(pa.int32())) for name in _COLUMNS],
        metadata={"layout": layout, "tokenizer_sha256": sha256},
    )


def _table_of(rows: Sequence[Sequence[Document]], schema: Any) -> Any:  # noqa: ANN401 - pyarrow
    """Return rows as a record batch."""
    lengths = np.array([len(ids) for row in rows for ids, _ in row], dtype=np.int32)
    ids = np.concatenate([ids for row in rows for ids, _ in row]).astype(np.int32)
    mask = np.concatenate([mask for row in rows for _, mask in row if mask is not None])
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    values = {
        "input_ids": ids,
        LABELS: np.where(mask != 0, ids, np.int32(NOT_TRAINED)),
        "position_ids": (np.arange(len(ids)) - np.repeat(starts, lengths)).astype(np.int32),
        "seq_lengths": lengths,
    }
    ends = _ends([len(row) for row in rows])
    token_ends = np.append(starts, len(ids))[ends].astype(np.int32)
    return pa.RecordBatch.from_arrays(
        [
            pa.ListArray.from_arrays(
                pa.array(ends if name == "seq_lengths" else token_ends), pa.array(values[name])
            )
            for name in _COLUMNS
        ],
        schema=schema,
    )


def _ends(counts: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
