"""NAME.idx: the positions of a shard's documents, in the format of Megatron's index, version 1.

Little-endian: 9 bytes of magic, u64 version, u8 element type, u64 sequences, u64 documents + 1,
the length of each sequence in tokens as i32, its position in bytes as i64, and the first sequence
of each document with the end of the last as i64. Each document is one sequence, so a shard can be
used as a Megatron dataset directly. The module requires only numpy.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, SourceError, other_format

_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_TYPE_CODES = {2: 8, 4: 4}
"""Megatron's element type by bytes of an id: 8 is uint16, 4 is int32 (ids are below 2**31)."""

_HEADER = struct.Struct("<9sQBQQ")
MAX_DOCUMENT_TOKENS = 2**31 - 1
_NUMBERS = 1 << 20  # numbers written at a time


def index_bytes(documents: int) -> int:
    """Return the size of the index of a number of documents, in bytes.

    >>> index_bytes(3) == sum(map(len, index_parts([np.array([3, 0, 2])], item_bytes=2)))
    True
    """
    return _HEADER.size + 20 * documents + 8


def index_parts(lengths: Sequence[npt.NDArray[np.integer]], *, item_bytes: int) -> Iterator[bytes]:
    """Yield the pieces of an index of documents, whose lengths are given in several arrays.

    Raises:
        SourceError: A document has more tokens than the format can express.
    """
    for part in lengths:
        if len(part) and int(part.max()) > MAX_DOCUMENT_TOKENS:
            raise SourceError(
                f"a document of {part.max()} tokens: an index holds at most {MAX_DOCUMENT_TOKENS}"
            )
    count = sum(map(len, lengths))
    yield _HEADER.pack(_MAGIC, _VERSION, _TYPE_CODES[item_bytes], count, count + 1)
    for part in lengths:
        yield part.astype("<i4").tobytes()
    end = 0
    for part in lengths:
        ends = np.cumsum(part, dtype="<i8")
        yield ((ends - part + end) * item_bytes).astype("<i8").tobytes()
        end += int(ends[-1]) if len(ends) else 0
    for start in range(0, count + 1, _NUMBERS):
        yield np.arange(start, min(start + _NUMBERS, count + 1), dtype="<i8").tobytes()


class DocumentIndex:
    """The lengths and positions of a shard's documents, in a file that can be memory-mapped."""

    def __init__(self, data: npt.NDArray[np.uint8], *, name: str) -> None:
        """Read the bytes of the file; errors use its name.

        Raises:
            CorruptOutputError: The data is not an index of this format, or is inconsistent.
        """
        count, self.item_bytes = _unpack_header(data, name=name)
        lengths_end, starts_end = _HEADER.size + 4 * count, _HEADER.size + 12 * count
        self.lengths: npt.NDArray[np.int32] = data[_HEADER.size : lengths_end].view("<i4")
        """Number of tokens of each document."""
        self.starts: npt.NDArray[np.int64] = data[lengths_end:starts_end].view("<i8")
        """The byte at which each document begins in the ids."""
        self._sequences = data[starts_end:].view("<i8")
        self._name = name
        ends = np.cumsum(self.lengths, dtype=np.int64)
        self.tokens = int(ends[-1]) if count else 0
        """Number of tokens of all documents."""
        if (count and int(self.lengths.min()) < 0) or not np.array_equal(
            (ends - self.lengths) * self.item_bytes, self.starts
        ):
            raise CorruptOutputError(f"{name}: lengths and positions of its documents do not agree")

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def positions(self) -> npt.NDArray[np.int64]:
        """The position of the first token of each document, and the end of the last, (n + 1,)."""
        return np.append(self.starts // self.item_bytes, self.tokens)

    def check_sequences(self) -> None:
        """Refuse an index in which a document is not exactly one sequence.

        Raises:
            CorruptOutputError: The message names the first such document.
        """
        sequences = self._sequences
        wrong = np.flatnonzero(sequences != np.arange(len(sequences)))
        if len(wrong):
            raise CorruptOutputError(
                f"{self._name}: document {wrong[0]} begins at sequence {sequences[wrong[0]]}, "
                "not its own"
            )


def _unpack_header(data: npt.NDArray[np.uint8], *, name: str) -> tuple[int, int]:
    """Return the number of documents and the bytes of an id; check the size of the file."""
    if len(data) < _HEADER.size:
        raise CorruptOutputError(
            f"{name} has {len(data)} bytes, its header alone has {_HEADER.size}"
        )
    magic, version, code, count, ends = _HEADER.unpack(data[: _HEADER.size].tobytes())
    sizes = {type_code: size for size, type_code in _TYPE_CODES.items()}
    if magic == _MAGIC and version != _VERSION:
        raise CorruptOutputError(other_format(name, f"version {version}", f"version {_VERSION}"))
    if magic != _MAGIC or code not in sizes or ends != count + 1:
        raise CorruptOutputError(f"{name}: the header is not that of a document index")
    if len(data) != (expected := index_bytes(count)):
        raise CorruptOutputError(f"{name} has {len(data)} bytes, {count} documents need {expected}")
    return count, sizes[code]
