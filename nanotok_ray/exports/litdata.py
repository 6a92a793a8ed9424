"""litdata: chunks of whole blocks of tokens for its TokensLoader, a dataset per source and split.

SOURCE/SPLIT/chunk-U-I.TAG.bin  blocks of unit U, in order; TAG identifies its native shard
NAME.rest                       the last ids of a unit, less than a block; no reader reads it
SOURCE/SPLIT/chunk-U-I.bin      U = number of units: blocks of the rests of all units, in order
SOURCE/SPLIT/left-over.bin      the last ids of all, less than a block; no reader reads it
SOURCE/SPLIT/index.json         all chunks in order

A chunk is the u32 number of blocks, the u32 position of each block and of the end (from the start
of the file), then ids of 2 or 4 bytes. TokensLoader reads the whole blocks of each chunk and drops
the remaining ids: therefore the rests. It sees neither documents nor masks. A source and split
without a whole block has no index, since litdata cannot open a dataset without chunks.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

import numpy as np

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.layout import (
    Document,
    ExportedUnit,
    Layout,
    Target,
    WrittenUnit,
    by_split,
)
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import Ids, Number
from nanotok_ray.shards import READERS
from nanotok_ray.storage import Folder

_MIN_BLOCK = 2
_MAX_BLOCK = 1 << 24
_MIN_CHUNK = 1 << 12
_REACH = 1 << 32
"""Positions in a chunk are u32; the largest block, of 64 MiB, is far smaller."""

_DATA_FORMATS: Final = {2: "no_header_numpy:5", 4: "no_header_numpy:6"}
"""uint16 and uint32 in litdata's table of NumPy types."""
_DATA_SPEC: Final = '[1, {"type": null, "context": null, "children_spec": []}]'
"""A tree of one leaf, as litdata's writer stores it for arrays."""

_DIGEST_DIGITS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A published chunk, with the fields that index.json has."""

    chunk_bytes: Number
    chunk_size: Number
    """Number of blocks."""
    dim: Number
    """Number of ids."""
    filename: str
    sha256: str
    """The hash of the file, which is only in records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunks:
    """The details of a unit."""

    chunks: tuple[Chunk, ...]
    rest: Number
    """Number of ids that make no block."""


@dataclass(frozen=True, kw_only=True)
class Litdata(Layout):
    """Chunks and indexes for StreamingDataset(item_loader=TokensLoader(block_size))."""

    name: ClassVar[str] = "litdata"
    format: ClassVar[str] = "litdata 1"
    numbered: ClassVar[bool] = True
    reader: ClassVar[str] = "litdata's StreamingDataset(SOURCE/SPLIT) with TokensLoader(block_size)"
    keeps_documents: ClassVar[bool] = False
    masks: ClassVar[str | None] = None

    block_size: int = 2049
    """Tokens of a block: the inputs and one more target."""
    chunk_bytes: int = 1 << 26
    """Bytes of a chunk, unless a single block is larger."""

    def __post_init__(self) -> None:
        """Refuse options that the format does not allow or that are not useful.

        Raises:
            ExportError: The message names the limits.
        """
        if not _MIN_BLOCK <= self.block_size <= _MAX_BLOCK:
            raise ExportError(
                f"layout 'litdata': block_size = {self.block_size} tokens is not from "
                f"{_MIN_BLOCK} to {_MAX_BLOCK}"
            )
        if not _MIN_CHUNK <= self.chunk_bytes < _REACH:
            raise ExportError(
                f"layout 'litdata': chunk_bytes = {self.chunk_bytes} is not at least "
                f"{_MIN_CHUNK} and below {_REACH}, as positions in a chunk have 4 bytes"
            )

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Write the whole blocks of a unit as chunks, and the remaining ids as its rest."""
        folder, _, stem = unit.name.rpartition("/")
        chunks, rest = self._write_blocks(
            _ids(unit),
            self._lengths(unit.tokens, unit.item_bytes),
            target,
            names=(f"{folder}/chunk-{unit.number}-", f".{stem.rpartition('-')[2]}.bin"),
        )
        if len(rest):
            target.write(_rest_name(unit), rest.tobytes())
        return WrittenUnit(
            documents=unit.documents,
            tokens=unit.tokens,
            details=Chunks(chunks=tuple(chunks), rest=len(rest)),
        )

    def expected(self, unit: Unit) -> Iterator[Document]:
        """Return the ids of each chunk, then the rest, since readers do not see documents."""
        lengths = self._lengths(unit.tokens, unit.item_bytes)
        return ((run, None) for run in _cut(_ids(unit), lengths) if len(run))

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Yield the blocks of each chunk back to back, then the rest."""
        folder_name = exported.unit.name.rpartition("/")[0]
        item_bytes = exported.unit.item_bytes
        for chunk in exported.details(Chunks).chunks:
            name = f"{folder_name}/{chunk.filename}"
            yield self._chunk_ids(folder.read_bytes(name), item_bytes, folder.join(name)), None
        rest = exported.array(folder, ".rest", f"<u{item_bytes}")
        if rest is not None:
            yield rest, None

    def finish(self, exported: Sequence[ExportedUnit], target: Target) -> Mapping[str, int]:
        """Write the blocks of all rests, and the index of each source and split."""
        unread: dict[str, int] = {}
        for folder, units in by_split(exported):
            details = [item.details(Chunks) for item in units]
            item_bytes = units[0].unit.item_bytes
            joint, rest = self._write_blocks(
                _rests(units, target.folder),
                self._lengths(sum(item.rest for item in details), item_bytes),
                target,
                names=(f"{folder}/chunk-{len(units)}-", ".bin"),
            )
            if len(rest):
                target.write(f"{folder}/left-over.bin", rest.tobytes())
                unread[folder] = len(rest)
            chunks = [*(chunk for item in details for chunk in item.chunks), *joint]
            if chunks:
                target.write_json(f"{folder}/index.json", self._index(chunks, item_bytes))
        return unread

    def _lengths(self, tokens: int, item_bytes: int) -> list[int]:
        """Return the number of tokens of each chunk, and of the rest, which can be 0.

        >>> Litdata(block_size=1000, chunk_bytes=4096)._lengths(6500, 2)
        [2000, 2000, 2000, 500]
        """
        blocks, rest = divmod(tokens, self.block_size)
        limit = max((self.chunk_bytes - 8) // (self.block_size * item_bytes + 4), 1)
        full_chunks, last = divmod(blocks, limit)
        lengths = [limit] * full_chunks + [last] * (last > 0)
        return [*(self.block_size * num_blocks for num_blocks in lengths), rest]

    def _write_blocks(
        self, ids: Iterable[Ids], lengths: Sequence[int], target: Target, *, names: tuple[str, str]
    ) -> tuple[list[Chunk], Ids]:
        """Write chunks of all lengths but the last; return them and the rest."""
        chunks = []
        runs = _cut(ids, lengths)
        for number, run in zip(range(len(lengths) - 1), runs, strict=False):
            name = f"{names[0]}{number}{names[1]}"
            with target.create(name) as file:
                file.write(self._head(len(run), run.itemsize))
                file.write(run.data)
            chunks.append(
                Chunk(
                    chunk_bytes=file.size,
                    chunk_size=len(run) // self.block_size,
                    dim=len(run),
                    filename=name.rpartition("/")[2],
                    sha256=file.sha256,
                )
            )
        return chunks, next(runs)

    def _head(self, tokens: int, item_bytes: int) -> bytes:
        """Return the header of a chunk of a number of tokens."""
        blocks = tokens // self.block_size
        positions = 4 + 4 * (blocks + 1) + np.arange(blocks + 1) * self.block_size * item_bytes
        return struct.pack("<I", blocks) + positions.astype("<u4").tobytes()

    def _chunk_ids(self, data: bytes, item_bytes: int, name: str) -> Ids:
        blocks = struct.unpack_from("<I", data)[0]
        head = self._head(blocks * self.block_size, item_bytes)
        if data[: len(head)] != head:
            raise CorruptOutputError(f"{name}: the header is not that of {blocks:,} blocks")
        return np.frombuffer(data, dtype=f"<u{item_bytes}", offset=len(head))

    def _index(self, chunks: Sequence[Chunk], item_bytes: int) -> object:
        """Return index.json; `updated_at` depends on the chunks' bytes, since it names caches."""
        listed = [asdict(chunk) for chunk in chunks]
        for values in listed:
            del values["sha256"]
        digest = hashlib.sha256("".join(chunk.sha256 for chunk in chunks).encode())
        config = {
            "chunk_bytes": self.chunk_bytes,
            "chunk_size": None,
            "compression": None,
            "data_format": [_DATA_FORMATS[item_bytes]],
            "data_spec": _DATA_SPEC,
            "encryption": None,
            "item_loader": "TokensLoader",
        }
        return {
            "chunks": listed,
            "config": config,
            "updated_at": digest.hexdigest()[:_DIGEST_DIGITS],
        }


def _ids(unit: Unit) -> Iterator[Ids]:
    """Yield all ids of a unit in batches."""
    return (batch.ids for batch in unit.batches())


def _cut(parts: Iterable[Ids], lengths: Iterable[int]) -> Iterator[Ids]:
    """Yield consecutive ids in arrays of these lengths, regardless of the division into parts.

    >>> [run.tolist() for run in _cut([np.arange(3), np.arange(4)], [2, 0, 4])]
    [[0, 1], [], [2, 0, 1, 2]]
    """
    coming, left = iter(parts), np.zeros(0, dtype="<u2")
    for length in lengths:
        taken = [left[:length]]
        missing, left = length - len(taken[0]), left[length:]
        while missing:
            part = next(coming)
            taken.append(part[:missing])
            missing, left = missing - len(taken[-1]), part[missing:]
        yield np.concatenate(taken)


def _rests(units: Sequence[ExportedUnit], folder: Folder) -> Iterator[Ids]:
    """Yield the rests of units in order, several at a time."""
    names = [name for unit in units for name in unit.names(".rest")]
    with ThreadPoolExecutor(max_workers=READERS) as pool:
        for first in range(0, len(names), READERS):
            for data in pool.map(folder.read_bytes, names[first : first + READERS]):
                yield np.frombuffer(data, dtype=f"<u{units[0].unit.item_bytes}")


def _rest_name(unit: Unit) -> str:
    return f"{unit.name}.rest"
