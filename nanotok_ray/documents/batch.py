"""A batch of documents as two arrays: all bytes back to back, and the offsets of the documents.

Batches are made from strings, bytes or an Arrow array. The bytes need not be valid UTF-8.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self

Nulls = Literal["error", "empty"]
"""The rule for a missing text: raise an error, or use an empty text."""

_OFFSET_TYPES: dict[str, np.dtype[np.int32] | np.dtype[np.int64]] = {
    "string": np.dtype(np.int32),
    "binary": np.dtype(np.int32),
    "large_string": np.dtype(np.int64),
    "large_binary": np.dtype(np.int64),
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Documents:
    """Documents back to back in one buffer.

    >>> documents = Documents.from_strings(["ab", "", "c"])
    >>> len(documents), documents[0], documents.num_bytes
    (3, b'ab', 3)
    """

    data: NDArray[np.uint8]
    """The bytes of all documents; other bytes can precede and follow them."""
    offsets: NDArray[np.int64]
    """n + 1 non-decreasing positions in `data`; the first need not be 0."""

    @classmethod
    def from_strings(cls, texts: Sequence[str]) -> "Self":
        """Return strings as a batch of UTF-8, with lone surrogates replaced as by `to_utf8`.

        Raises:
            TypeError: A value is not a str.
        """
        return cls.from_bytes([to_utf8(text) for text in texts])

    @classmethod
    def from_bytes(cls, documents: Sequence[bytes | bytearray]) -> "Self":
        """Return byte strings as a batch; a single byte string is not copied."""
        joined = documents[0] if len(documents) == 1 else b"".join(documents)
        data = np.frombuffer(joined, dtype=np.uint8)
        lengths = np.fromiter(map(len, documents), dtype=np.int64, count=len(documents))
        return cls(data=data, offsets=offsets_of(lengths))

    @classmethod
    def joined(cls, batches: "Sequence[Documents]") -> "Self":
        """Return a copy of the documents of all batches, in order.

        >>> batch = Documents.from_strings(["a", "b"])
        >>> list(Documents.joined([batch, batch]))
        [b'a', b'b', b'a', b'b']
        """
        data = [batch.data[batch.offsets[0] : batch.offsets[-1]] for batch in batches]
        lengths = [np.diff(batch.offsets) for batch in batches]
        return cls(data=np.concatenate(data), offsets=offsets_of(np.concatenate(lengths)))

    @classmethod
    def from_arrow(cls, array: "pa.Array | pa.ChunkedArray") -> "Self":
        """Return a pyarrow string or binary array as a batch without copying its bytes.

        Only an array of several chunks is copied, into one chunk.

        Raises:
            SourceError: The array contains nulls, or values other than strings or bytes.
        """
        array = _one_chunk(array)
        kind = str(getattr(array, "type", type(array)))
        if kind not in _OFFSET_TYPES:
            raise SourceError(f"expected an Arrow array of type large_string or string, got {kind}")
        if array.null_count:
            raise SourceError(f"the Arrow array holds {array.null_count} nulls: drop them first")
        _, starts, data = array.buffers()
        if not len(array) or starts is None:
            return cls.from_bytes([])
        offsets = np.frombuffer(starts, dtype=_OFFSET_TYPES[kind])
        bounds = offsets[array.offset : array.offset + len(array) + 1]
        if data is None:
            data = b""
        return cls(
            data=np.frombuffer(data, dtype=np.uint8), offsets=np.asarray(bounds, dtype=np.int64)
        )

    def to_arrow(self, *, as_bytes: bool = False) -> "pa.Array":
        """Return the same documents as a pyarrow array, without copying the bytes.

        The type is large_string, which requires valid UTF-8, or with `as_bytes` large_binary.
        """
        import pyarrow as pa  # noqa: PLC0415 - most users of this module do not need it

        offsets = np.ascontiguousarray(self.offsets)
        data = np.ascontiguousarray(self.data)
        kind = pa.large_binary() if as_bytes else pa.large_string()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, len(self), buffers, null_count=0)

    @property
    def num_bytes(self) -> int:
        """Bytes of all documents."""
        return int(self.offsets[-1] - self.offsets[0])

    def take(self, indices: Sequence[int] | NDArray[np.int64]) -> "Documents":
        """Return the selected documents in the given order; a copy unless they are adjacent.

        >>> list(Documents.from_strings(["a", "b", "c"]).take([2, 0]))
        [b'c', b'a']
        """
        first, stop = (int(indices[0]), int(indices[-1]) + 1) if len(indices) else (0, 0)
        if 0 <= first < stop <= len(self) and np.array_equal(indices, np.arange(first, stop)):
            return Documents(data=self.data, offsets=self.offsets[first : stop + 1])
        return Documents.from_bytes([self[int(index)] for index in indices])

    def part(self, start: int, stop: int) -> "Documents":
        """Return adjacent documents without copying them.

        >>> list(Documents.from_strings(["a", "b", "c"]).part(1, 3))
        [b'b', b'c']
        """
        return Documents(data=self.data, offsets=self.offsets[start : stop + 1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))


def as_documents(
    texts: Sequence[str | None] | Sequence[bytes | None] | Documents, *, nulls: Nulls = "error"
) -> Documents:
    """Return a list of texts, all str or all bytes, as a batch; return a batch as it is.

    >>> list(as_documents([None, b"a"], nulls="empty"))
    [b'', b'a']

    Raises:
        TypeError: A text is neither str nor bytes, not of the type of the first one, or None while
            `nulls` is "error".
    """
    if isinstance(texts, Documents):
        return texts
    is_bytes = isinstance(next((text for text in texts if text is not None), None), bytes)
    missing: str | bytes = b"" if is_bytes else ""
    given: Sequence[Any] = texts
    if nulls == "empty":
        given = [missing if text is None else text for text in texts]
    return Documents.from_bytes(given) if is_bytes else Documents.from_strings(given)


def is_missing(text: object) -> bool:
    """Return whether a value is a missing text of Python, numpy or pandas.

    >>> [is_missing(value) for value in (None, float("nan"), "", 0)]
    [True, True, False, False]
    """
    return (
        text is None
        or (isinstance(text, float) and text != text)  # noqa: PLR0124 - NaN
        or type(text).__name__ in {"NAType", "NaTType"}
    )


def type_of(value: object) -> str:
    """Return the name of the type of a value with an article.

    >>> type_of(7), type_of([])
    ('an int', 'a list')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def to_utf8(text: str) -> bytes:
    r"""Encode a text; a surrogate pair becomes its character, a lone surrogate U+FFFD.

    Python strings can contain surrogates, for example from JSON escapes; UTF-8 cannot. The rule is
    that of tiktoken.

    >>> to_utf8("\ud83d\ude42") == "🙂".encode(), to_utf8("a\ud83d").decode()
    (True, 'a�')

    Raises:
        TypeError: The text is not a str.
    """
    try:
        return str.encode(text)
    except TypeError:
        raise TypeError(f"{_kind(text)} is not an instance of 'str'") from None
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _kind(value: object) -> str:
    return "'None'" if value is None else f"{type(value).__name__!r} object"


def offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets of items of these lengths: the start of each, and the end of the last.

    >>> offsets_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _one_chunk(array: "pa.Array | pa.ChunkedArray") -> "pa.Array":
    if not hasattr(array, "chunks"):
        return array
    if array.num_chunks == 1:
        return array.chunk(0)
    joined = array.combine_chunks()
    if hasattr(joined, "chunks"):
        raise SourceError(f"{array.nbytes} bytes do not fit one {array.type}: cast to large_string")
    return joined
