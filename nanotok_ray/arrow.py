"""Tokenizers on Arrow columns, for Ray Data, datasets, polars, DuckDB, Spark and Daft.

    from nanotok_ray import arrow

    table = table.append_column("ids", arrow.encode(table["text"], tokenizer))

A column is an array or a chunked array of pyarrow, an object with the Arrow PyCapsule interface (a
polars or pandas Series), or anything else that `Tokenizer.encode_batch` accepts. A missing row
stays missing. The results are pyarrow arrays with the same number of rows, and hold the ids without
a copy.
"""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents, arrow_parts_of, batches_of, encode_texts, null_rows
from nanotok_ray.errors import TokenizerError

if TYPE_CHECKING:
    from nanotok_ray.documents.texts import Texts
    from nanotok_ray.tokenizer import Tokenizer

__all__ = ["count", "decode", "encode", "render"]

_MAX_LIST_IDS = 2**31 - 1


def encode(
    array: "Texts",
    tokenizer: "Tokenizer",
    *,
    prepend: int | str | None = None,
    append: int | str | None = None,
    num_threads: int = 1,
) -> pa.ListArray:
    """Return the ids of each text: list<uint16>, or list<uint32> if ids do not fit in 16 bits.

    Args:
        array: the texts.
        tokenizer: encodes the texts with `encode_batch`; names of special tokens stay text.
        prepend: an id, or the name of a special token, before the ids of each text.
        append: an id, or the name of a special token, after the ids of each text.
        num_threads: the number of threads that encode.

    >>> from nanotok_ray import Tokenizer
    >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
    >>> ids = encode(pa.array(["ab", None, ""]), tokenizer, prepend="<|bos|>")
    >>> ids.type, ids.to_pylist()
    (ListType(list<item: uint16>), [[256, 97, 98], None, [256]])

    Raises:
        TypeError, SourceError, SplitError: As `Tokenizer.encode_batch`.
        UnknownTokenError: `prepend` or `append` is not a token.
        TokenizerError: The ids are more than a ListArray holds.
    """
    before, after = (_ids_of(token, tokenizer) for token in (prepend, append))
    ids, offsets, missing = _encoded(
        array, tokenizer, before=before, after=after, num_threads=num_threads
    )
    return _lists(ids, offsets, missing)


def count(array: "Texts", tokenizer: "Tokenizer", *, num_threads: int = 1) -> pa.Int32Array:
    """Return the number of ids of each text.

    >>> from nanotok_ray import Tokenizer
    >>> count(["ab", None, ""], Tokenizer.train_from_iterator([], vocab_size=265)).to_pylist()
    [2, None, 0]

    Raises:
        TypeError, SourceError, SplitError: As `Tokenizer.encode_batch`.
    """
    _, offsets, missing = _encoded(array, tokenizer, num_threads=num_threads)
    return pa.array(np.diff(offsets).astype(np.int32), mask=missing)


def render(
    array: "Texts",
    tokenizer: "Tokenizer",
    dialect: Dialect | str = "messages",
    *,
    num_threads: int = 1,
) -> pa.StructArray:
    """Return ids and loss mask of each conversation: struct<ids, mask, problem>.

    A conversation that cannot be rendered has no ids, and `problem` says why; it is null otherwise.

    Args:
        array: conversations as JSON, or as lists of messages {"role", "content"}, or {"messages"}.
        tokenizer: renders the conversations with `render_batch`; nothing is cropped.
        dialect: the dialect of the conversations, as for `Tokenizer.render_batch`.
        num_threads: the number of threads that render.

    >>> from nanotok_ray import Tokenizer
    >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
    >>> rows = render(pa.array([[{"role": "user", "content": "a"}], []]), tokenizer)
    >>> rows.to_pylist()[0]
    {'ids': [256, 257, 97, 258], 'mask': [0, 0, 0, 0], 'problem': None}
    >>> rows.to_pylist()[1]
    {'ids': None, 'mask': None, 'problem': 'the conversation has no messages'}

    Raises:
        TypeError, SourceError: The column holds no conversations.
        TokenizerError: The dialect does not exist, or the ids do not fit in a ListArray.
    """
    parts = [_as_json(part) for part in arrow_parts_of(_rows(array), name="array")]
    missing = _missing(parts)
    documents = Documents.joined([*batches_of(parts, nulls="empty", name="array")])
    batch = tokenizer.render_batch(documents, dialect, num_threads=num_threads)
    bad = np.zeros(len(batch), dtype=bool)
    bad[[*batch.problems]] = True
    problems = [
        None if gone else batch.problems.get(row) for row, gone in enumerate(missing.tolist())
    ]
    return pa.StructArray.from_arrays(
        [
            _lists(batch.ids, batch.offsets, bad),
            _lists(batch.mask, batch.offsets, bad),
            pa.array(problems, pa.string()),
        ],
        ["ids", "mask", "problem"],
        mask=pa.array(missing),
    )


def decode(array: Any, tokenizer: "Tokenizer") -> pa.LargeStringArray:  # noqa: ANN401 - see below
    """Return the text of each row of a column of lists of ids, as `Tokenizer.decode`.

    >>> from nanotok_ray import Tokenizer
    >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
    >>> decode(pa.array([[97, 98], None]), tokenizer).to_pylist()
    ['ab', None]

    Raises:
        TypeError: The column does not hold lists of integers.
        KeyError: An id is not a token; the message names it and its row.
    """
    lists = _imported(array)
    ids = pc.list_flatten(lists)
    if not pa.types.is_integer(ids.type) or ids.null_count:
        raise TypeError(f"array: expected lists of integers without nulls, got {lists.type}")
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0), dtype=np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    texts = tokenizer.decode_batch(np.asarray(ids).astype(np.uint32, copy=False), offsets)
    if not lists.null_count:
        return texts
    return pc.if_else(pa.array(np.asarray(lists.is_null())), pa.scalar(None, texts.type), texts)


def _encoded(
    array: "Texts",
    tokenizer: "Tokenizer",
    *,
    before: list[int] = [],  # noqa: B006 - it is only read
    after: list[int] = [],  # noqa: B006
    num_threads: int,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the concatenated ids of all rows, their n + 1 offsets, and which rows are missing."""
    parts = arrow_parts_of(array, name="array")
    missing = _missing(parts)
    ids, offsets = encode_texts(
        parts[0] if len(parts) == 1 else parts,
        lambda documents: tokenizer.encode_documents(
            documents, before=before, after=after, num_threads=num_threads
        ),
        nulls="empty",
    )
    return ids, offsets, missing


def _missing(parts: "list[pa.Array | pa.ChunkedArray]") -> npt.NDArray[np.bool_]:
    chunks = (chunk for part in parts for chunk in getattr(part, "chunks", [part]))
    return np.concatenate([np.zeros(0, bool), *(np.asarray(null_rows(c)) for c in chunks)])


def _ids_of(token: int | str | None, tokenizer: "Tokenizer") -> list[int]:
    if token is None:
        return []
    return [token if isinstance(token, int) else tokenizer.encode_special(token)]


def _lists(
    values: npt.NDArray[Any], offsets: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_]
) -> pa.ListArray:
    """Return rows as lists, in which a missing row is null and hides its values.

    Raises:
        TokenizerError: The values do not fit in a ListArray.
    """
    if len(values) > _MAX_LIST_IDS:
        raise TokenizerError(
            f"{len(values):,} ids are more than an Arrow ListArray holds ({_MAX_LIST_IDS:,}): pass "
            "fewer rows at a time"
        )
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values), mask=mask)


def _imported(array: Any) -> "pa.Array | pa.ChunkedArray":  # noqa: ANN401 - what was given
    if isinstance(array, pa.Array | pa.ChunkedArray):
        return array
    return pa.chunked_array(array) if hasattr(array, "__arrow_c_stream__") else pa.array(array)


def _rows(array: Any) -> Any:  # noqa: ANN401 - what was given
    """Return a column, in which parsed rows of Python or numpy objects are converted to JSON."""
    if not isinstance(array, list | tuple | np.ndarray):
        return array
    first = next((row for row in array if row is not None), None)
    is_parsed = isinstance(first, dict | list | np.ndarray)
    return [None if row is None else _to_json(row) for row in array] if is_parsed else array


def _as_json(part: "pa.Array | pa.ChunkedArray") -> "pa.Array | pa.ChunkedArray":
    """Return conversations that are Arrow lists or structs as JSON."""
    if not pa.types.is_nested(part.type):
        return part
    rows = (None if row is None else _to_json(row) for row in part.to_pylist())
    return pa.array(rows, pa.large_string())


def _to_json(row: Any) -> str:  # noqa: ANN401 - a conversation, perhaps with arrays of numpy
    return json.dumps(row, default=lambda value: value.tolist())
