r"""Functions on documents for the key `transform` of a source: decorators and ready filters.

A function gets a `pyarrow.RecordBatch` and returns one. The columns of its argument are

- `source_row`, int64: the number of each row in the batch,
- the document: under the name of the source's `column`, or `text` if the format has no columns, as
  strings; for conversations and documents with images `json`, the JSON text of each row,
- the `columns` of the source.

The returned batch has `source_row` and the document; other columns are ignored. A row can be
changed, left out, or returned several times, and the order of rows stays. A row with a text in the
column `drop_reason` is dropped for this reason.

`per_document` makes such a function of one that gets a single document:

>>> @per_document
... def without_notice(text):
...     if "all rights reserved" in text:
...         return drop("notice")
...     return text.replace("\r\n", "\n")
>>> apply(without_notice, ["one\r\ntwo", "all rights reserved"])
(['one\ntwo'], {'notice': 1})

The filters of this module are made by functions with their settings, and `chain` joins them:

>>> clean = chain(normalize("NFC"), length(min_chars=3), letters(min_share=0.5))
>>> apply(clean, ["cafe\u0301", "no", "12345"])
(['café'], {'shorter than 3 characters': 1, 'too few letters': 1})

What a function returns for a row must depend on nothing but this row: not on other rows, the
time, or random numbers. A job calls it twice for some rows and stops if the results differ.
"""

import functools
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROW: Final = "source_row"
"""The column with the number of the row that a row was made of."""
REASON: Final = "drop_reason"
"""The column with the reason why a row is dropped, null for all other rows."""
JSON: Final = "json"
"""The column of conversations and of documents with images."""

_IS_JSON: Final = b"nanotok.json"
"""The key of the metadata of a schema whose documents are JSON."""

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Drop:
    """The result of a function for a document that is dropped."""

    reason: str


def drop(reason: str) -> Drop:
    """Return what a function returns to drop a document, which is counted under the reason."""
    return Drop(reason)


def batch_of(
    documents: pa.Array, *, name: str, is_json: bool = False, columns: pa.RecordBatch | None = None
) -> pa.RecordBatch:
    """Return the argument of a function: documents with the number of each, and other columns."""
    rows = pa.array(np.arange(len(documents), dtype=np.int64))
    fields = [pa.field(ROW, rows.type), pa.field(name, documents.type)]
    arrays = [rows, documents]
    if columns is not None:
        fields += [*columns.schema]
        arrays += columns.columns
    metadata = {_IS_JSON: b""} if is_json else None
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))


def per_document(function: Callable[..., Any]) -> BatchFunction:
    """Return a function of batches of one that gets a document at a time.

    The document is a `str`, or for conversations and documents with images the value of their JSON.
    The `columns` of the source follow as arguments by name. The function returns

    - the document, changed or not,
    - None, or `drop("reason")`: the document is dropped,
    - a list of documents: one, several or none.

    A document for which the function raises an error is quarantined.
    """

    @functools.wraps(function)
    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        is_json = _IS_JSON in (batch.schema.metadata or {})
        _, documents, *columns = [column.to_pylist() for column in batch.columns]
        names = batch.schema.names[2:]
        results: list[tuple[int, str | None, str | None]] = []
        for row, (document, *values) in enumerate(zip(documents, *columns, strict=True)):
            given = json.loads(document) if is_json else document
            result = function(given, **dict(zip(names, values, strict=True)))
            results += ((row, *item) for item in _results(result, is_json=is_json))
        rows, texts, reasons = zip(*results, strict=True) if results else ((), (), ())
        return pa.RecordBatch.from_arrays(
            [
                batch.column(0).take(pa.array(rows, pa.int64())),
                pa.array(texts, pa.large_string()),
                pa.array(reasons, pa.string()),
            ],
            names=[ROW, batch.schema.names[1], REASON],
        )

    return of_batch


def _results(result: object, *, is_json: bool) -> Iterator[tuple[str | None, str | None]]:
    """Yield the document or the reason of each result of a function."""
    if isinstance(result, Drop):
        yield None, result.reason
    elif isinstance(result, list) and not (is_json and _is_conversation(result)):
        for one in result:
            yield from _results(one, is_json=is_json)
    elif is_json and result is not None:
        yield json.dumps(result, ensure_ascii=False, allow_nan=False, separators=(",", ":")), None
    elif isinstance(result, str):
        yield result, None
    elif result is not None:
        raise TypeError(
            f"the function returned {type(result).__name__}, not a text, None, drop() or a list"
        )


def _is_conversation(result: Sequence[object]) -> bool:
    """Return whether a list is the list of messages of one conversation."""
    return bool(result) and isinstance(result[0], dict) and "role" in result[0]


def apply(
    function: BatchFunction, documents: Sequence[str], *, name: str = "text"
) -> tuple[list[str], dict[str, int]]:
    """Return what a function makes of texts, and the number of dropped ones by reason.

    This is for trying a function, and for its tests.

    >>> apply(length(max_chars=3), ["abc", "abcd"])
    (['abc'], {'longer than 3 characters': 1})
    """
    given = batch_of(pa.array(documents, pa.large_string()), name=name)
    result = checked(function(given), name=name, num_rows=len(documents))
    return result.documents.to_pylist(), dict(result.dropped)


@dataclass(frozen=True, slots=True)
class Result:
    """What a function returned for a batch."""

    rows: np.ndarray[Any, np.dtype[np.int64]]
    """The row of the argument that each document was made of, in order."""
    documents: pa.Array
    """large_string without nulls; the bytes need not be valid UTF-8."""
    dropped: Counter[str]
    """The number of rows that gave no document, by reason."""


REMOVED: Final = "removed"
"""The reason of rows that a function leaves out."""


def checked(batch: object, *, name: str, num_rows: int) -> Result:
    """Return the result of a function whose argument had so many rows.

    Raises:
        TypeError: It is no batch, or lacks a column.
        ValueError: Its rows are not rows of the argument, in order.
    """
    if not isinstance(batch, pa.RecordBatch):
        raise TypeError(f"it returned {type(batch).__name__}, not a pyarrow.RecordBatch")
    for column in (ROW, name):
        if batch.schema.names.count(column) != 1:
            raise TypeError(f"the batch that it returned has not one column {column!r}")
    numbers, documents = batch.column(ROW), batch.column(name)
    rows = np.asarray(numbers.cast(pa.int64()))  # a null is NaN, which no comparison holds for
    steps = np.diff(rows)
    is_row = len(rows) == 0 or (rows[0] >= 0 and rows[-1] < num_rows and bool((steps >= 0).all()))
    if not is_row:
        raise ValueError(f"its column {ROW!r} must have rows of the argument, in order")
    if documents.type != pa.large_string():
        documents = documents.cast(pa.large_string())
    dropped: Counter[str] = Counter()
    is_covered = np.zeros(num_rows, dtype=bool)
    reasons = batch.column(REASON) if REASON in batch.schema.names else pa.nulls(len(batch))
    if reasons.null_count < len(reasons) or documents.null_count:
        is_dropped = np.asarray(reasons.is_valid())
        texts = reasons.cast(pa.string()).to_pylist()
        dropped.update(text for text in texts if text is not None)
        is_covered[rows[is_dropped]] = True
        is_given = np.asarray(documents.is_valid()) & ~is_dropped
        rows, documents = rows[is_given], documents.filter(pa.array(is_given))
    is_covered[rows] = True
    num_removed = num_rows - int(np.count_nonzero(is_covered))
    if num_removed:
        dropped[REMOVED] += num_removed
    return Result(rows, documents, dropped)


def chain(*functions: BatchFunction) -> BatchFunction:
    """Return a function that applies several one after the other.

    A row that one of them drops does not reach the next one.
    """

    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        name = batch.schema.names[1]
        origin = batch.column(ROW)
        dropped: list[pa.RecordBatch] = []
        for function in functions:
            argument = batch.set_column(0, ROW, pa.array(np.arange(len(batch), dtype=np.int64)))
            returned = function(argument)
            result = checked(returned, name=name, num_rows=len(batch))
            if REASON in returned.schema.names:
                explained = returned.filter(returned.column(REASON).is_valid())
                dropped.append(
                    pa.RecordBatch.from_arrays(
                        [origin.take(explained.column(ROW)), explained.column(REASON)],
                        names=[ROW, REASON],
                    )
                )
            batch = batch.take(pa.array(result.rows)).set_column(1, name, result.documents)
            origin = origin.take(pa.array(result.rows))
        return _with_dropped(origin, batch.column(1), dropped, name=name)

    return of_batch


def _with_dropped(
    rows: pa.Array, documents: pa.Array, dropped: Sequence[pa.RecordBatch], *, name: str
) -> pa.RecordBatch:
    """Return a batch of documents and of rows with a reason, in the order of the rows."""
    all_rows = pa.concat_arrays([rows, *(part.column(ROW) for part in dropped)])
    reasons = [part.column(REASON).cast(pa.string()) for part in dropped]
    num_dropped = sum(map(len, reasons))
    order = np.argsort(all_rows.to_numpy(), kind="stable")
    columns = [
        all_rows,
        pa.concat_arrays(
            [documents.cast(pa.large_string()), pa.nulls(num_dropped, pa.large_string())]
        ),
        pa.concat_arrays([pa.nulls(len(rows), pa.string()), *reasons]),
    ]
    return pa.RecordBatch.from_arrays(
        [column.take(pa.array(order)) for column in columns], names=[ROW, name, REASON]
    )


def _where(batch: pa.RecordBatch, *rules: tuple[pa.Array, str]) -> pa.RecordBatch:
    """Return a batch whose rows are dropped for the first rule that is true for them."""
    reason = pa.nulls(len(batch), pa.string())
    for is_dropped, why in reversed(rules):
        reason = pc.if_else(is_dropped, pa.scalar(why), reason)
    return batch.append_column(REASON, reason)


def length(*, min_chars: int = 0, max_chars: int | None = None) -> BatchFunction:
    """Return a filter of texts with fewer or more characters (code points).

    >>> apply(length(min_chars=2), ["é", "éé"])
    (['éé'], {'shorter than 2 characters': 1})
    """

    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        chars = pc.utf8_length(batch.column(1))
        rules = [(pc.less(chars, min_chars), f"shorter than {min_chars} characters")]
        if max_chars is not None:
            rules.append((pc.greater(chars, max_chars), f"longer than {max_chars} characters"))
        return _where(batch, *rules)

    return of_batch


def duplicate_lines(*, max_share: float) -> BatchFunction:
    r"""Return a filter of texts in which too many lines repeat an earlier one.

    The share is that of the repeated lines in all lines; blank lines are not counted.

    >>> apply(duplicate_lines(max_share=0.3), ["a\nb\na\na\n", "a\n\n\nb\n"])
    (['a\n\n\nb\n'], {'duplicate lines': 1})
    """

    @per_document
    def of_text(text: str, /, **_: object) -> str | Drop:
        lines = [line for line in text.splitlines() if line.strip()]
        repeated = len(lines) - len(set(lines))
        return drop("duplicate lines") if repeated > max_share * len(lines) else text

    return of_text


def matching(pattern: str, *, keep: bool) -> BatchFunction:
    """Return a filter of texts by whether a regular expression (RE2) matches a part of them.

    With `keep`, only texts that match are kept, otherwise only those that do not.

    >>> apply(matching("(?i)lorem ipsum", keep=False), ["Lorem ipsum dolor", "A text"])
    (['A text'], {'matches the pattern': 1})
    """

    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        matches = pc.match_substring_regex(batch.column(1), pattern)
        if keep:
            return _where(batch, (pc.invert(matches), "does not match the pattern"))
        return _where(batch, (matches, "matches the pattern"))

    return of_batch


def normalize(form: str) -> BatchFunction:
    """Return a function that normalizes texts to NFC, NFD, NFKC or NFKD.

    The tables are those of Python, `unicodedata.unidata_version`.

    Raises:
        ValueError: The form is none of these.
    """
    unicodedata.normalize(form, "\u00e9")  # type: ignore[arg-type]

    @per_document
    def of_text(text: str, /, **_: object) -> str:
        return unicodedata.normalize(form, text)  # type: ignore[arg-type]

    return of_text


def letters(*, min_share: float) -> BatchFunction:
    r"""Return a filter of texts with too small a share of letters (`\p{L}`) in all characters.

    An empty text is dropped.

    >>> apply(letters(min_share=0.5), ["naïve", "1234"])
    (['naïve'], {'too few letters': 1})
    """

    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch.column(1)
        others = pc.utf8_length(pc.replace_substring_regex(texts, r"\p{L}+", ""))
        chars = pc.utf8_length(texts)
        num_letters = pc.subtract(chars, others).cast(pa.float64())
        is_kept = pc.greater_equal(num_letters, pc.multiply(chars.cast(pa.float64()), min_share))
        is_dropped = pc.invert(pc.and_(is_kept, pc.greater(chars, 0)))
        return _where(batch, (is_dropped, "too few letters"))

    return of_batch
