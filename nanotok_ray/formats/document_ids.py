"""NAME.ids: the id of each document of a shard in its source, as text.

Little-endian: 8 bytes of magic, u32 version, u32 zero, u64 number of documents, then (documents +
1) i64 offsets of the ids in the UTF-8 that follows. A document without an id has an empty one. The
module requires only numpy.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, other_format

_MAGIC = b"NANOTOKD"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ")


Texts = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""UTF-8 texts back to back, and their n + 1 offsets."""


def ids_parts(ids: Sequence[Texts]) -> Iterator[bytes]:
    """Yield the pieces of a file of document ids, which are given in any number of parts.

    >>> ids = np.frombuffer(b"ab7", np.uint8), np.array([0, 2, 2, 3])
    >>> sum(map(len, ids_parts([ids, ids]))) == 24 + 8 * (6 + 1) + 6
    True
    """
    count = sum(len(offsets) - 1 for _, offsets in ids)
    yield _HEADER.pack(_MAGIC, _VERSION, 0, count) + bytes(8)
    end = 0
    for _, offsets in ids:
        yield (offsets[1:] - offsets[0] + end).astype("<i8").tobytes()
        end += int(offsets[-1] - offsets[0])
    for data, offsets in ids:
        yield data[offsets[0] : offsets[-1]].tobytes()


class DocumentIds:
    """The ids of a shard's documents, in a file that can be memory-mapped."""

    def __init__(self, data: npt.NDArray[np.uint8], *, name: str, documents: int) -> None:
        """Read the bytes of the file; errors use its name.

        Raises:
            CorruptOutputError: The file does not have ids of this number of documents, or is
                inconsistent.
        """
        start = _HEADER.size + 8 * (documents + 1)
        if len(data) < start:
            raise CorruptOutputError(
                f"{name} has {len(data)} bytes, ids of {documents} documents take {start} and more"
            )
        magic, version, zero, count = _HEADER.unpack(data[: _HEADER.size].tobytes())
        if magic == _MAGIC and version != _VERSION:
            raise CorruptOutputError(
                other_format(name, f"version {version}", f"version {_VERSION}")
            )
        if (magic, version, zero, count) != (_MAGIC, _VERSION, 0, documents):
            raise CorruptOutputError(
                f"{name}: the header is not that of ids of {documents} documents"
            )
        self._offsets = data[_HEADER.size : start].view("<i8")
        self._text = data[start:]
        ends = self._offsets
        if ends[0] != 0 or ends[-1] != len(self._text) or (np.diff(ends) < 0).any():
            raise CorruptOutputError(f"{name}: the positions of its ids do not agree with them")
        self._name = name

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def part(self, start: int, stop: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Return the ids of adjacent documents: UTF-8, and n + 1 offsets."""
        return self._text, self._offsets[start : stop + 1]

    def find(self, document_id: str) -> npt.NDArray[np.int64]:
        """Return the documents with this id, in order; none for an empty id.

        >>> data = np.frombuffer(b"".join(ids_parts([(np.frombuffer(b"ab7ab", np.uint8),
        ...                                           np.array([0, 2, 3, 5]))])), np.uint8)
        >>> DocumentIds(data, name="a.ids", documents=3).find("ab").tolist()
        [0, 2]
        """
        wanted = document_id.encode()
        documents = (
            np.flatnonzero(np.diff(self._offsets) == len(wanted)) if wanted else np.arange(0)
        )
        for position, byte in enumerate(wanted):
            documents = documents[self._text[self._offsets[documents] + position] == byte]
        return documents

    def __getitem__(self, document: int) -> str:
        """Return the id of a document; an empty string if it has none.

        Raises:
            CorruptOutputError: The id is not valid UTF-8.
        """
        data = self._text[self._offsets[document] : self._offsets[document + 1]].tobytes()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CorruptOutputError(f"{self._name}: id {document} is not UTF-8") from error
