"""Texts of Arrow arrays as batches of documents, without copying their bytes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents, Nulls, offsets_of
from nanotok_ray.errors import SourceError, SplitError

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Self


Rows = tuple[NDArray[Any], NDArray[np.int64]]
"""Ids back to back, and n + 1 offsets."""

SMALL_BYTES = 1 << 22
"""Smaller chunks are combined: a call has a fixed cost, and needs work for several threads."""
JOINED_BYTES = 1 << 24
"""Bytes that are copied at a time."""

_PLAIN = ("string", "large_string", "binary", "large_binary")
_VIEWS = ("string_view", "binary_view")
_KINDS = f"{', '.join(_PLAIN + _VIEWS)}, or a dictionary of these"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ArrowTexts:
    """The rows of an Arrow array; each text of a dictionary is stored once.

    >>> import pyarrow as pa
    >>> array = pa.array(["yes", "no", None, "yes"]).dictionary_encode()
    >>> texts = ArrowTexts.from_arrow(array, nulls="empty")
    >>> [list(documents) for documents in texts.chunks], texts.picks.tolist()
    ([[b'yes', b'no'], [b'']], [0, 1, 2, 0])
    """

    chunks: tuple[Documents, ...]
    """At least one chunk; documents are numbered across all chunks."""
    picks: NDArray[np.int64] | None
    """The number of the document of each row; None: the rows are the documents, in order."""

    @classmethod
    def from_arrow(
        cls, array: "pa.Array | pa.ChunkedArray", *, nulls: Nulls = "error", name: str = "texts"
    ) -> "Self":
        """Return the texts of an array without copying their bytes; messages call it `name`.

        Views, a dictionary with unused values, and text below nulls are copied.

        Raises:
            SourceError: The array contains a null and `nulls` is "error", or values other than
                texts.
        """
        chunks, kind = array.chunks if hasattr(array, "chunks") else [array], array.type
        _check_kind(kind, name)
        if nulls == "error":
            _refuse_nulls(chunks, name)
        if _is_dictionary(kind):
            return cls._from_dictionaries(chunks)
        documents = map(_documents, chunks) if chunks else [Documents.from_bytes([])]
        return cls(chunks=tuple(documents), picks=None)

    def encode(self, encode: Callable[[Documents], Rows]) -> Rows:
        """Encode part by part and return the ids of every row; a large chunk is one part.

        Raises:
            SplitError: `encode` raised it; the message names the number of texts before that part.
        """
        if len(self.chunks) == 1 and self.picks is None:
            return encode(self.chunks[0])
        parts: list[Rows] = []
        for documents in self.parts():
            try:
                parts.append(encode(documents))
            except SplitError as error:
                first = sum(len(offsets) - 1 for _, offsets in parts)
                raise SplitError(f"after {first} texts of the Arrow array, {error}") from None
        rows = joined_rows(parts)
        return rows if self.picks is None else take_rows(*rows, self.picks)

    def parts(self) -> Iterator[Documents]:
        """Yield the chunks in order, with small adjacent ones combined."""
        small: list[Documents] = []
        size = 0
        for chunk in self.chunks:
            if small and chunk.num_bytes > min(SMALL_BYTES, JOINED_BYTES - size):
                yield _joined(small)
                small, size = [], 0
            small.append(chunk)
            size += chunk.num_bytes
        yield _joined(small)

    def batches(self, *, max_bytes: int, max_texts: int) -> Iterator[Documents]:
        """Yield every row; rows of a dictionary are copied, in batches of limited size."""
        if self.picks is None:
            yield from self.parts()
            return
        values = Documents.joined(self.chunks)
        array = values.to_arrow(as_bytes=True)
        ends = np.cumsum(np.diff(values.offsets)[self.picks])
        start = 0
        while start < len(ends):
            done = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, done + max_bytes))
            stop = min(max(fitting, start + 1), start + max_texts)
            yield Documents.from_arrow(array.take(self.picks[start:stop]))
            start = stop

    @classmethod
    def _from_dictionaries(cls, chunks: "Sequence[pa.Array]") -> "Self":
        """Return each used value of the dictionaries once, and one empty document for all nulls."""
        values, picks, number = [], [np.zeros(0, dtype=np.int64)], 0
        for dictionary, indices in _by_dictionary(chunks):
            rows = indices.cast("int64").fill_null(len(dictionary)).to_numpy()
            used = np.zeros(len(dictionary) + 1, dtype=bool)
            used[rows] = True
            picks.append((number + np.cumsum(used) - 1)[rows])
            values += [_documents(_chosen(dictionary, used[:-1]))]
            values += [Documents.from_bytes([b""])] if used[-1] else []
            number += int(np.count_nonzero(used))
        none = Documents.from_bytes([])
        return cls(chunks=tuple(values or [none]), picks=np.concatenate(picks))


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Return the concatenated rows of one or more parts.

    >>> ids, offsets = joined_rows([(np.array([7, 8]), np.array([0, 2]))] * 2)
    >>> ids.tolist(), offsets.tolist()
    ([7, 8, 7, 8], [0, 2, 4])
    """
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(offsets) for _, offsets in parts])
    return np.concatenate([ids for ids, _ in parts]), offsets_of(lengths)


def take_rows(ids: NDArray[Any], offsets: NDArray[np.int64], picks: NDArray[np.int64]) -> Rows:
    """Return the selected rows of ids back to back, and their offsets.

    `offsets` has n + 1 positions in `ids`, as int64; `picks` has the numbers of rows, as int64.

    >>> ids, offsets = take_rows(np.array([7, 8, 9]), np.array([0, 2, 2, 3]), np.array([2, 1, 0]))
    >>> ids.tolist(), offsets.tolist()
    ([9, 7, 8], [0, 1, 1, 3])
    """
    import pyarrow as pa  # noqa: PLC0415 - only who brings an Arrow array comes here

    buffers = [None, pa.py_buffer(offsets * ids.itemsize), pa.py_buffer(np.ascontiguousarray(ids))]
    rows = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    taken = Documents.from_arrow(rows.take(pa.array(picks)))
    return taken.data[: taken.offsets[-1]].view(ids.dtype), taken.offsets // ids.itemsize


def _joined(chunks: Sequence[Documents]) -> Documents:
    return chunks[0] if len(chunks) == 1 else Documents.joined(chunks)


def _check_kind(kind: "pa.DataType", name: str) -> None:
    plain = kind.value_type if _is_dictionary(kind) else kind
    if str(plain) not in _PLAIN + _VIEWS:
        raise SourceError(f"{name}: expected an Arrow array of {_KINDS}, got {kind}")


def _is_dictionary(kind: "pa.DataType") -> bool:
    return str(kind).startswith("dictionary<")


def null_rows(chunk: "pa.Array") -> "pa.Array":
    """Return which rows are null; pyarrow before 26 ignores nulls among the values of a dictionary.

    >>> import pyarrow as pa
    >>> indices, values = pa.array([0, 1, None]), pa.array(["a", None])
    >>> null_rows(pa.DictionaryArray.from_arrays(indices, values)).to_pylist()
    [False, True, True]
    """
    if not _is_dictionary(chunk.type):
        return chunk.is_null()
    return chunk.dictionary.is_null().take(chunk.indices).fill_null(True)


def _refuse_nulls(chunks: "Sequence[pa.Array]", name: str) -> None:
    """Refuse nulls; a row of a dictionary is also null if its value is null."""
    start = 0
    for chunk in chunks:
        if chunk.null_count or (_is_dictionary(chunk.type) and chunk.dictionary.null_count):
            row = null_rows(chunk).index(True).as_py()
            if row >= 0:
                raise SourceError(
                    f"{name}: row {start + row} of the Arrow array is null: drop the nulls first, "
                    'or pass nulls="empty"'
                )
        start += len(chunk)


def _by_dictionary(chunks: "Sequence[pa.Array]") -> "list[tuple[pa.Array, pa.Array]]":
    """Return each dictionary and its indices: one pair if the dictionaries can be unified."""
    import pyarrow as pa  # noqa: PLC0415 - only who brings an Arrow array comes here

    try:
        chunks = pa.chunked_array(chunks).unify_dictionaries().chunks if len(chunks) > 1 else chunks
    except pa.ArrowException:  # the values contain a null, or there are too many of them
        return [(chunk.dictionary, chunk.indices) for chunk in chunks]
    indices = [chunk.indices for chunk in chunks]
    return [(chunks[0].dictionary, pa.concat_arrays(indices))] if chunks else []


def _chosen(dictionary: "pa.Array", used: NDArray[np.bool_]) -> "pa.Array":
    return dictionary if used.all() else _plain(dictionary).take(np.flatnonzero(used))


def _documents(array: "pa.Array") -> Documents:
    """Return one chunk as a batch without copying; nulls are empty."""
    array = _plain(array)
    return Documents.from_arrow(_without_nulls(array) if array.null_count else array)


def _plain(array: "pa.Array") -> "pa.Array":
    """Copy views into one buffer; return other arrays unchanged."""
    return array.cast("large_binary") if str(array.type) in _VIEWS else array


def _without_nulls(array: "pa.Array") -> "pa.Array":
    """Return an array without its validity bitmap, unless nulls have bytes."""
    import pyarrow as pa  # noqa: PLC0415 - only who brings an Arrow array comes here

    _, starts, data = array.buffers()
    unmasked = pa.Array.from_buffers(
        array.type, len(array), [None, starts, data], null_count=0, offset=array.offset
    )
    lengths = np.diff(Documents.from_arrow(unmasked).offsets)
    hidden = lengths[array.is_null().to_numpy(zero_copy_only=False)].any()
    return array.fill_null(b"") if hidden else unmasked
