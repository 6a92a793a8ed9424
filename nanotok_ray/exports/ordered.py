"""The second pass of an order: the sections of the scatter files, as units of an export."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.order import MIXTURE
from nanotok_ray.exports.scatter import IMAGE_BYTES, read_section
from nanotok_ray.exports.unit import Unit, batch_bounds
from nanotok_ray.formats import DocumentBatch, DocumentIndex, SourceUse, Texts, index_parts
from nanotok_ray.loader.batch import Numbers
from nanotok_ray.loader.mixture import Mixture, Taken
from nanotok_ray.storage import Folder

_READERS = 16
"""Scatter files that are read at a time, because reading a remote file is mostly waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """Consecutive documents of an order."""

    number: int
    documents: int
    """The number of its documents, unless `tokens` ends it."""
    tokens: int | None
    """The document that reaches this number of tokens is the last; None: all documents."""
    taken: Taken
    """The number of documents of each stream before the section."""
    num_bytes: int
    """Approximate bytes of its ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScatterFiles:
    """The files of the first pass, which have the documents of all sections."""

    mixture: Mixture
    ranges: Mapping[str, range]
    """The documents of each source that is mixed among those of all train shards."""
    suffixes: frozenset[str]
    """The suffixes of the native files that the documents come from."""
    item_bytes: int
    order_key: str
    """The sha256 of all values on which the documents of a section depend."""
    folder: str
    """URL of their folder."""
    names: tuple[str, ...] = ()
    """Their names without suffix; empty as long as they do not exist."""

    def read(self, section: Section) -> tuple[Numbers, DocumentBatch]:
        """Return the documents of a section and their indexes among those of all train shards.

        Raises:
            CorruptOutputError: A file is damaged, or lacks documents.
        """
        numbers, _ = self.mixture.take(section.taken, section.documents)
        table = self._table(section.number)
        rows = None if table is None else _rows(table["document"].to_numpy(), numbers)
        if table is None or rows is None:
            raise CorruptOutputError(
                f"{self.folder} lacks documents of section {section.number}: export again, which "
                "makes it anew"
            )
        if section.tokens is not None:
            lengths = pc.binary_length(table["ids"]).to_numpy() // self.item_bytes
            ends = np.cumsum(lengths[rows])
            rows = rows[: 1 + int(np.searchsorted(ends, section.tokens))]
        batch = _batch(table.take(rows).combine_chunks(), self.item_bytes)
        return numbers[: len(rows)], batch

    def _table(self, section: int) -> pa.Table | None:
        """Return the documents of a section in any order."""
        folder = Folder(self.folder)
        with ThreadPoolExecutor(max_workers=_READERS) as pool:
            found = list(pool.map(lambda name: read_section(folder, name, section), self.names))
        tables = [table for table in found if table is not None]
        return pa.concat_tables(tables).combine_chunks() if tables else None

    def uses(self, numbers: Numbers, lengths: Numbers) -> dict[str, SourceUse]:
        """Return the documents and tokens of each source."""
        return {
            name: SourceUse(documents=int(is_of.sum()), tokens=int(lengths[is_of].sum()))
            for name, documents in self.ranges.items()
            if (is_of := (documents.start <= numbers) & (numbers < documents.stop)).any()
        }


def _rows(found: Numbers, numbers: Numbers) -> Numbers | None:
    """Return the row of each number, or None if one is missing.

    >>> _rows(np.array([7, 3, 5]), np.array([5, 7, 5])).tolist()
    [2, 0, 2]
    """
    order = np.argsort(found, kind="stable")
    places = np.searchsorted(found, numbers, sorter=order)
    rows: Numbers = order[np.minimum(places, len(order) - 1)]
    return rows if np.array_equal(found[rows], numbers) else None


@dataclass(slots=True)
class _Read:
    """What was read of the sections of a unit: the last one, and the sizes of all."""

    number: int = -1
    documents: DocumentBatch | None = None
    lengths: dict[int, npt.NDArray[np.int32]] = field(default_factory=dict)
    uses: dict[int, dict[str, SourceUse]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderedUnit(Unit):
    """Adjacent sections of an order, which become one set of files."""

    sections: tuple[Section, ...]
    files: ScatterFiles
    _read: _Read | None = field(default=None, repr=False, compare=False)

    def open(self) -> "OrderedUnit":
        """Return the unit with a memory, since a unit is read several times."""
        return replace(self, _read=_Read())

    @property
    def documents(self) -> int:
        """Number of documents of all sections."""
        return sum(map(len, self._lengths))

    @property
    def tokens(self) -> int:
        """Number of tokens of all sections."""
        return sum(int(lengths.sum()) for lengths in self._lengths)

    @property
    def has_tokens(self) -> bool:
        """Whether any of its documents has a token; no further section is read."""
        return any(len(self._section(section).ids) for section in self.sections)

    @property
    def num_bytes(self) -> int:
        """Approximate bytes of all sections."""
        return sum(section.num_bytes for section in self.sections)

    @property
    def inputs(self) -> tuple[str, ...]:
        """A file that it is made of."""
        return tuple(f"{self.files.folder}/{name}.documents" for name in self.files.names[:1])

    @property
    def item_bytes(self) -> int:
        """Bytes of an id: 2 or 4."""
        return self.corpus.item_bytes

    @property
    def suffixes(self) -> Collection[str]:
        """The suffixes of the native files that its documents come from."""
        return self.files.suffixes

    @property
    def parts(self) -> list[tuple[str, object]]:
        """The name of each section with all values on which its documents depend."""
        key = self.files.order_key
        return [
            (f"section {one.number}", [key, one.documents, one.tokens]) for one in self.sections
        ]

    @property
    def uses(self) -> dict[str, SourceUse]:
        """The documents and tokens of each source that is mixed."""
        read, totals = self._read_all(), dict[str, SourceUse]()
        for section in self.sections:
            for name, use in read.uses[section.number].items():
                documents, tokens = totals.get(name, (0, 0))
                totals[name] = SourceUse(documents + use.documents, tokens + use.tokens)
        return totals

    def indexes(self) -> Iterator[DocumentIndex]:
        """Yield one index of the documents of all sections."""
        parts = index_parts(self._lengths, item_bytes=self.item_bytes)
        yield DocumentIndex(np.frombuffer(b"".join(parts), dtype=np.uint8), name=self.name)

    def batches(self) -> Iterator[DocumentBatch]:
        """Yield all documents in order, in batches of about `batch_bytes` of ids.

        Raises:
            CorruptOutputError: A scatter file is damaged, or lacks documents.
        """
        for section in self.sections:
            documents = self._section(section)
            limit = self.batch_bytes // self.item_bytes
            for first, last in batch_bounds(documents.positions, limit):
                yield documents.part(first, last)

    def publish(self, suffix: str, folder: Folder, name: str) -> tuple[int, str]:
        """Write the ids (`.bin`) or the masks (`.mask`); return size and sha256 (hex)."""
        with folder.create(name) as file:
            for batch in self.batches():
                part = batch.ids if suffix == ".bin" else batch.mask
                assert part is not None
                file.write(part.data)
        return file.size, file.sha256

    @property
    def _lengths(self) -> list[npt.NDArray[np.int32]]:
        read = self._read_all()
        return [read.lengths[section.number] for section in self.sections]

    def _read_all(self) -> _Read:
        """Read the sections whose sizes are not known yet."""
        assert self._read is not None
        for section in self.sections:
            if section.number not in self._read.lengths:
                self._section(section)
        return self._read

    def _section(self, section: Section) -> DocumentBatch:
        """Return the documents of a section, which stay in memory until another one is read."""
        read = self._read
        assert read is not None
        if read.documents is None or read.number != section.number:
            read.documents = None
            numbers, read.documents = self.files.read(section)
            read.number = section.number
            read.lengths[section.number] = read.documents.lengths.astype(np.int32)
            read.uses[section.number] = self.files.uses(numbers, read.documents.lengths)
        return read.documents


def units_in_order(
    corpus: Corpus, sections: Sequence[Section], files: ScatterFiles, *, joined: int | None
) -> list[Unit]:
    """Return the units of ordered documents: each section, or `joined` parts of equal size."""
    number = len(sections) if joined is None else min(joined, len(sections))
    parts = np.array_split(np.arange(len(sections)), number)
    return [
        OrderedUnit(
            source=MIXTURE,
            split="train",
            number=part,
            name=f"{MIXTURE}/train/{part:05d}",
            shards=(),
            corpus=corpus,
            sections=tuple(sections[number] for number in numbers.tolist()),
            files=files,
        )
        for part, numbers in enumerate(parts)
    ]


def _batch(table: pa.Table, item_bytes: int) -> DocumentBatch:
    """Return the documents of a table."""
    data, offsets = _column(table, "ids")
    mask = document_ids = images = None
    if "mask" in table.column_names:
        mask = _column(table, "mask")[0]
    if "document_ids" in table.column_names:
        document_ids = _column(table, "document_ids")
    if "images" in table.column_names:
        pairs, ends = _column(table, "images")
        counts = np.diff(ends) // IMAGE_BYTES
        images = np.column_stack(
            [np.repeat(np.arange(len(counts)), counts), pairs.view("<i8").reshape(-1, 2)]
        )
    return DocumentBatch(
        ids=data.view(f"<u{item_bytes}"),
        positions=offsets // item_bytes,
        mask=mask,
        document_ids=document_ids,
        images=images,
        shard=MIXTURE,
    )


def _column(table: pa.Table, name: str) -> Texts:
    """Return the bytes of the values of a column back to back, and their offsets."""
    (values,) = table[name].chunks
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[values.offset :][: len(values) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return content[ends[0] : ends[-1]], ends - ends[0]
