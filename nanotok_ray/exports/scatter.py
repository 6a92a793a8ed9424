"""The first pass of an order: the documents of some shards, by the sections that they belong to.

A section is a number of consecutive documents of the order. A scatter reads adjacent shards once,
from start to end, and writes a scatter file, which has the documents of one section after the
other.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch, ScatterRecord, StoredFile, key_of
from nanotok_ray.loader.batch import Numbers
from nanotok_ray.loader.mixture import Mixture, Taken
from nanotok_ray.shards import finished_record, write_record
from nanotok_ray.storage import Folder, WrittenFile

ENTRY = np.dtype([("start", "<u8"), ("bytes", "<u8"), ("tokens", "<u8"), ("crc32", "<u4")])
"""Where a scatter file has the documents of a section. The file has a document once, also if it is
several times in the section; its tokens count each time.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sections:
    """The first sections of the order of a mixture."""

    mixture: Mixture
    ends: tuple[Taken, ...]
    """The number of documents of each stream before each section, and after the last."""

    @classmethod
    def of(cls, mixture: Mixture, *, number: int, documents: int, end: int | None) -> "Sections":
        """Return a number of sections of equally many documents, up to the document `end`."""
        positions = [section * documents for section in range(number + 1)]
        if end is not None:
            positions = [min(position, end) for position in positions]
        return cls(mixture=mixture, ends=tuple(map(mixture.taken_before, positions)))

    def __len__(self) -> int:
        return len(self.ends) - 1

    @cached_property
    def _bounds(self) -> Numbers:
        return np.array(self.ends, dtype=np.int64)

    def of_documents(self, first: int, count: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return where adjacent documents of one source are, ordered by section and document.

        Returns:
            int64 (n,): the section, the index of the document among the `count` documents, and how
            often the section has it.
        """
        sections, indexes, times = [], [], []
        for number, stream in enumerate(self.mixture.streams):
            if not count or first not in stream.documents:
                continue
            bounds, size = self._bounds[:, number], len(stream.documents)
            starts = np.arange(0, bounds[-1], size)
            first_sections = _section_of(starts, bounds)
            is_inside = first_sections == _section_of(starts + size - 1, bounds)
            whole, epochs = np.unique(first_sections[is_inside], return_counts=True)
            sections.append(np.repeat(whole, count))
            indexes.append(np.tile(np.arange(count), len(whole)))
            times.append(np.repeat(epochs, count))
            for epoch in np.flatnonzero(~is_inside).tolist():
                positions = stream.position_of(np.arange(first, first + count), epoch)
                is_taken = np.flatnonzero(positions < bounds[-1])
                sections.append(_section_of(positions[is_taken], bounds))
                indexes.append(is_taken)
                times.append(np.ones(len(is_taken), dtype=np.int64))
        return _joined(sections, indexes, times, count)


def _section_of(positions: Numbers, bounds: Numbers) -> Numbers:
    return np.searchsorted(bounds, positions, side="right") - 1


def _joined(
    sections: list[Numbers], indexes: list[Numbers], times: list[Numbers], count: int
) -> tuple[Numbers, Numbers, Numbers]:
    """Join pairs of section and index, adding how often each pair occurs."""
    if not sections:
        return (np.zeros(0, dtype=np.int64),) * 3
    places = np.concatenate(sections) * count + np.concatenate(indexes)
    unique, inverse = np.unique(places, return_inverse=True)
    totals = np.zeros(len(unique), dtype=np.int64)
    np.add.at(totals, inverse, np.concatenate(times))
    return unique // count, unique % count, totals


@dataclass(frozen=True, kw_only=True, slots=True)
class ScatterWork:
    """Adjacent shards of one source, whose documents are written by section."""

    unit: Unit
    first: int
    """The index of the first document among those of all train shards."""
    sections: Sections
    suffixes: frozenset[str]
    """The suffixes of the native files whose content the ordered documents have."""
    folder: str
    """URL of the folder of the scatter files."""
    order_key: str

    @property
    def name(self) -> str:
        """The path of the scatter file without suffix."""
        return f"{self.first:012d}-{self.key[:16]}"

    @property
    def key(self) -> str:
        """The sha256 of all values on which the scatter file depends."""
        shards = [list(part) for part in self.unit.parts]
        return key_of(
            {
                "order": self.order_key,
                "first": self.first,
                "shards": shards,
                "sections": len(self.sections),
            }
        )

    @property
    def record_name(self) -> str:
        """The path of the record of the scatter file."""
        return f"{self.name}.json"


def scatter(work: ScatterWork) -> int:
    """Write a scatter file and its record, and return the bytes of its shards.

    Raises:
        CorruptOutputError: A native file is missing or differs from shards.idx.
    """
    folder = Folder(work.folder)
    if finished_record(folder, work.record_name, ScatterRecord, key=work.key) is None:
        with folder.create(f"{work.name}.documents", is_durable=False) as file:
            entries = _write_documents(work, file)
        with folder.create(f"{work.name}.index", is_durable=False) as table:
            table.write(entries.tobytes())
        files = tuple(
            StoredFile(name=f"{work.name}{suffix}", size=written.size, sha256=written.sha256)
            for suffix, written in ((".index", table), (".documents", file))
        )
        record = ScatterRecord(key=work.key, files=files, stage="scatter")
        write_record(folder, work.record_name, record)
    return work.unit.num_bytes


def _write_documents(work: ScatterWork, file: WrittenFile) -> npt.NDArray[np.void]:
    """Write the documents of each section, and return the index.

    Shards of which no document is needed are not read.
    """
    where, indexes, times = work.sections.of_documents(work.first, work.unit.documents)
    batches = list(work.unit.batches()) if len(where) else []
    starts = np.cumsum([0, *map(len, batches)])
    tables = [
        _table(batch, work.first + start, work.suffixes)
        for batch, start in zip(batches, starts.tolist(), strict=False)
    ]
    lengths = np.concatenate([np.zeros(0, np.int64), *(batch.lengths for batch in batches)])
    entries = np.zeros(len(work.sections), dtype=ENTRY)
    cuts = np.searchsorted(where, np.arange(len(entries) + 1))
    for section in np.flatnonzero(np.diff(cuts)).tolist():
        chosen = indexes[cuts[section] : cuts[section + 1]]
        bounds = np.searchsorted(chosen, starts)
        parts = [
            table.take(chosen[first:last] - start)
            for table, start, (first, last) in zip(tables, starts, pairwise(bounds), strict=False)
        ]
        data = _bytes_of(pa.concat_tables(parts))
        tokens = int((lengths[chosen] * times[cuts[section] : cuts[section + 1]]).sum())
        entries[section] = file.size, len(data), tokens, zlib.crc32(data)
        file.write(data)
    return entries


def _table(batch: DocumentBatch, first: int, suffixes: frozenset[str]) -> pa.Table:
    """Return documents as a table with the columns that the ordered documents have.

    All tokens of a document without a mask are trained on; other documents of the order have masks.
    """
    positions = batch.positions
    columns = {
        "document": pa.array(np.arange(first, first + len(batch), dtype=np.int64)),
        "ids": _binary(batch.ids, positions * batch.ids.itemsize),
    }
    if ".mask" in suffixes:
        mask = np.ones(len(batch.ids), np.uint8) if batch.mask is None else batch.mask
        columns["mask"] = _binary(mask, positions)
    if ".ids" in suffixes:
        none = np.zeros(0, np.uint8), np.zeros(len(batch) + 1, np.int64)
        columns["document_ids"] = _binary(*(batch.document_ids or none))
    if ".images" in suffixes:
        images = np.zeros((0, 3), np.int64) if batch.images is None else batch.images
        ends = np.searchsorted(images[:, 0], np.arange(len(batch) + 1)) * IMAGE_BYTES
        columns["images"] = _binary(np.ascontiguousarray(images[:, 1:], dtype=np.int64), ends)
    return pa.table(columns)


IMAGE_BYTES = 16
"""Bytes of begin and end of an image."""


def _binary(data: npt.NDArray[np.generic], offsets: Numbers) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _bytes_of(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_section(folder: Folder, name: str, section: int) -> pa.Table | None:
    """Return the documents of a section in a scatter file, or None if it has none.

    Raises:
        CorruptOutputError: The file is missing or damaged.
    """
    try:
        table = _read(folder, f"{name}.index", section * ENTRY.itemsize, ENTRY.itemsize)
        entry = np.frombuffer(table, dtype=ENTRY)[0]
        if not entry["bytes"]:
            return None
        data = _read(folder, f"{name}.documents", int(entry["start"]), int(entry["bytes"]))
    except (FileNotFoundError, EOFError) as error:
        raise _damaged(folder, name) from error
    if zlib.crc32(data) != entry["crc32"]:
        raise _damaged(folder, name)
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def _read(folder: Folder, name: str, start: int, size: int) -> bytes:
    with folder.open(name) as file:
        file.seek(start)
        data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _damaged(folder: Folder, name: str) -> CorruptOutputError:
    return CorruptOutputError(
        f"{folder.join(name)}.documents is damaged or missing: export again, which makes it anew"
    )
