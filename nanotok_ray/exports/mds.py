"""mds: the files of mosaicml-streaming's MDSWriter, one dataset for each source and split."""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.layout import (
    WITHOUT_TOKENS,
    Document,
    ExportedUnit,
    Layout,
    Target,
    WrittenUnit,
    by_split,
)
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import Number
from nanotok_ray.storage import Folder

HASH: Final = "sha1"
"""The algorithm of `validate_hash="sha1"`: it detects damage, not tampering."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPart:
    """A published part: the file, its size and its hash."""

    basename: str
    bytes: Number
    samples: Number
    sha1: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The details of a unit."""

    parts: tuple[StoredPart, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The description of the columns for each part and the index."""

    version: int = 2
    format: str = "mds"
    compression: None = None
    hashes: tuple[str, ...] = (HASH,)
    size_limit: int
    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[None, ...]

    def to_json(self) -> bytes:
        """Return the JSON in a part that describes its columns and options."""
        return json.dumps(asdict(self), sort_keys=True).encode()


@dataclass(kw_only=True, slots=True)
class Part:
    """A part that is being built: its samples, back to back."""

    config: bytes
    sizes: list[int] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)

    def size_with(self, sample: bytes) -> int:
        """Return the size in bytes with one more sample."""
        head = 4 + 4 * (len(self.sizes) + 2) + len(self.config)
        return head + len(self.body) + len(sample)

    def add(self, sample: bytes) -> None:
        """Append a sample."""
        self.sizes.append(len(sample))
        self.body += sample

    def write(self, name: str, target: Target) -> StoredPart:
        """Publish the part."""
        start = 4 + 4 * (len(self.sizes) + 1) + len(self.config)
        positions = np.cumsum([start, *self.sizes]).astype("<u4").tobytes()
        head = struct.pack("<I", len(self.sizes)) + positions + self.config
        digest = hashlib.sha1(head, usedforsecurity=False)
        digest.update(self.body)
        with target.create(name) as file:
            file.write(head)
            file.write(self.body)
        return StoredPart(
            basename=name.rpartition("/")[2],
            bytes=len(head) + len(self.body),
            samples=len(self.sizes),
            sha1=digest.hexdigest(),
        )


def sample_of(columns: Sequence[bytes]) -> bytes:
    """Return the sample of a document: the sizes of its columns, then the columns."""
    return struct.pack(f"<{len(columns)}I", *map(len, columns)) + b"".join(columns)


def array_of(values: npt.NDArray[Any]) -> bytes:
    """Return the bytes of an array: its shape, then its values.

    >>> array_of(np.array([7, 258], "<u2")).hex()
    '040207000201'
    """
    k = 0 if len(values) < 1 << 8 else 1 if len(values) < 1 << 16 else 2
    return bytes([4 | k]) + len(values).to_bytes(1 << k, "little") + values.tobytes()


def documents_of(data: bytes, config: Config, *, samples: int, name: str) -> Iterator[Document]:
    """Yield the documents of a part."""
    start = 4 + 4 * (samples + 1)
    positions = np.frombuffer(data, dtype="<u4", offset=4, count=samples + 1).tolist()
    if (struct.unpack_from("<I", data)[0], positions[-1]) != (samples, len(data)):
        raise CorruptOutputError(f"{name}: the header is not that of {samples} samples")
    if data[start : positions[0]] != config.to_json():
        raise CorruptOutputError(f"{name} has other columns or options than its source")
    names = config.column_names
    for begin, end in pairwise(positions):
        columns = dict(zip(names, _column_values(data[begin:end], len(names), name), strict=True))
        mask = columns.get("loss_mask")
        dtype = config.column_encodings[-1].partition(":")[2]
        ids = _values(columns["tokens"], np.dtype(dtype), name)
        yield ids, None if mask is None else _values(mask, np.dtype(np.uint8), name)


def _column_values(sample: bytes, columns: int, name: str) -> Iterator[bytes]:
    sizes = struct.unpack_from(f"<{columns}I", sample)
    if 4 * columns + sum(sizes) != len(sample):
        raise CorruptOutputError(f"{name}: the columns of a sample are not as long as it says")
    start = 4 * columns
    for size in sizes:
        yield sample[start : start + size]
        start += size


def _values(column: bytes, dtype: np.dtype[Any], name: str) -> npt.NDArray[Any]:
    """Return the values of an array that follow its shape."""
    k = column[0] - 4
    if k not in (0, 1, 2):
        raise CorruptOutputError(f"{name}: an array does not have one dimension")
    start = 1 + (1 << k)
    values = np.frombuffer(column, dtype=dtype.newbyteorder("<"), offset=start)
    if len(values) != int.from_bytes(column[1:start], "little"):
        raise CorruptOutputError(f"{name}: an array is not as long as it says")
    return values


_MIN_CHUNK = 1 << 12
_REACH = 1 << 32
"""Positions in a part are u32."""


@dataclass(frozen=True, kw_only=True)
class Mds(Layout):
    """Parts and indexes that StreamingDataset opens, with their sha1."""

    name: ClassVar[str] = "mds"
    format: ClassVar[str] = "mds 1"
    reader: ClassVar[str] = "mosaicml-streaming's StreamingDataset(local=SOURCE/SPLIT)"
    keeps_empty: ClassVar[bool] = False
    masks: ClassVar[str | None] = "column loss_mask, a byte for each id"

    size_limit: int = 1 << 26
    """Bytes of a part, unless a single document is larger."""

    def __post_init__(self) -> None:
        """Refuse limits that the format does not allow or that are not useful.

        Raises:
            ExportError: The message names the limits.
        """
        if not _MIN_CHUNK <= self.size_limit < _REACH:
            raise ExportError(
                f"layout 'mds': size_limit = {self.size_limit} bytes is not at least {_MIN_CHUNK} "
                f"and below {_REACH}, as positions in a part have 4 bytes"
            )

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Write the parts of a unit."""
        parts: list[StoredPart] = []
        part = Part(config=self._config(unit).to_json())
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
        return WrittenUnit(
            documents=unit.documents - left_out,
            tokens=tokens,
            left_out={WITHOUT_TOKENS: left_out},
            details=Parts(parts=tuple(parts)),
        )

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Yield the columns of each sample of each part."""
        config = self._config(exported.unit)
        source_split = exported.unit.name.rpartition("/")[0]
        for part in exported.details(Parts).parts:
            name = f"{source_split}/{part.basename}"
            data = folder.read_bytes(name)
            if hashlib.sha1(data, usedforsecurity=False).hexdigest() != part.sha1:
                raise CorruptOutputError(f"{folder.join(name)} has another sha1 than its record")
            yield from documents_of(data, config, samples=part.samples, name=folder.join(name))

    def finish(self, exported: Sequence[ExportedUnit], target: Target) -> Mapping[str, int]:
        """Write the index of each source and split."""
        for folder, units in by_split(exported):
            shards = [
                {
                    **asdict(self._config(item.unit)),
                    "samples": part.samples,
                    "raw_data": {
                        "basename": part.basename,
                        "bytes": part.bytes,
                        "hashes": {HASH: part.sha1},
                    },
                    "zip_data": None,
                }
                for item in units
                for part in item.details(Parts).parts
            ]
            target.write_json(f"{folder}/index.json", {"version": 2, "shards": shards})
        return {}

    def _config(self, unit: Unit) -> Config:
        columns = _columns(unit)
        return Config(
            size_limit=self.size_limit,
            column_names=tuple(columns),
            column_encodings=tuple(columns.values()),
            column_sizes=(None,) * len(columns),
        )


def _columns(unit: Unit) -> dict[str, str]:
    """Return the encoding of each column by name, in the order of samples."""
    columns = {"id": "str"} if unit.has_document_ids else {}
    if unit.has_masks:
        columns["loss_mask"] = "ndarray:uint8"
    return columns | {"tokens": f"ndarray:uint{8 * unit.item_bytes}"}


def _samples(unit: Unit) -> Iterator[tuple[npt.NDArray[Any], bytes]]:
    """Yield the ids and the sample of every document."""
    for batch in unit.batches():
        for number, (ids, mask) in enumerate(batch.documents()):
            columns = [] if mask is None else [array_of(mask)]
            if unit.has_document_ids:
                columns.insert(0, batch.document_id(number).encode())
            yield ids, sample_of([*columns, array_of(ids)])


def _part_name(unit: Unit, number: int) -> str:
    return f"{unit.name}.{number:05d}.mds"


def _check_reach(size: int, unit: Unit, number: int) -> None:
    """Refuse a document that is too large for a part of its own.

    Raises:
        ExportError: The message names the document.
    """
    if size >= _REACH:
        raise ExportError(
            f"document {number} of {unit.name} alone makes a part of {size:,} bytes; mds reaches "
            f"{_REACH - 1:,}, as positions in a part have 4 bytes: remove it from the corpus, or "
            "export to a layout without this limit"
        )
