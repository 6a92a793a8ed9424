"""What the function of a source makes of batches of documents.

A document that the function returns has the position of its row. It also has the number of its row
if no function returns several documents for a row; otherwise documents are numbered after the
function: every row takes one number, and each further document of it one more.
"""

import json
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray import filters
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SourceError
from nanotok_ray.formats import Transform
from nanotok_ray.sources.batch import BadDocument, Batch, hash64_of
from nanotok_ray.sources.checked import checked_batch
from nanotok_ray.sources.files import DocumentRules
from nanotok_ray.sources.json_lines import Rejected, by_python
from nanotok_ray.sources.transform_code import last_line, load_function

NUM_REPEATED: Final = 64
"""The number of rows for which the function is called twice, in the first batch."""
RAISED: Final = "the function raised "
"""The beginning of the reason of a document for which the function raised an error."""
CALL_BYTES: Final = 1 << 21
"""The size from which on batches are not joined for a call."""
MAX_REASON_CHARS: Final = 100


def transformed(
    batches: Iterable[Batch], rules: DocumentRules, *, is_json_lines: bool, with_check: bool
) -> Iterator[Batch]:
    """Yield the batches of a piece with the documents that the function of the rules returns.

    Args:
        batches: The documents as they are read. For texts of JSON lines with further columns they
            are whole lines.
        rules: The rules with the function.
        is_json_lines: Whether the file has JSON lines.
        with_check: Whether the function is called twice for the first rows.

    Raises:
        SourceError: The function cannot be imported, does not return what it must, or returns other
            documents when it is called again.
    """
    function = _function_of(rules)
    shift, group = 0, None
    for batch in _joined(batches):
        if batch.group != group:  # numbers are unique in a row group
            shift, group = 0, batch.group
        given = _given(batch, rules, is_json_lines=is_json_lines)
        if not len(given.documents):
            yield replace(given, bad=_shifted(given, shift=shift), columns=None)
            continue
        call = function.call(given)
        if with_check:
            function.check_repeated(given, call)
            with_check = False
        result, further = _after(given, call, rules, shift=shift)
        shift += further
        yield result


def _joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches in groups, since a call takes time: Arrow gives 250 kB of a column."""
    waiting: list[Batch] = []
    num_bytes = 0
    for batch in batches:
        if waiting and waiting[0].group != batch.group:
            yield _one_of(waiting)
            waiting, num_bytes = [], 0
        waiting.append(batch)
        num_bytes += batch.documents.num_bytes
        if num_bytes >= CALL_BYTES:  # before the next one is read, while this one is in the cache
            yield _one_of(waiting)
            waiting, num_bytes = [], 0
    if waiting:
        yield _one_of(waiting)


def _one_of(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    ids = [batch.document_ids for batch in batches if batch.document_ids is not None]
    columns = [batch.columns for batch in batches if batch.columns is not None]
    return Batch(
        documents=Documents.joined([batch.documents for batch in batches]),
        positions=np.concatenate([batch.positions for batch in batches]),
        numbers=np.concatenate([batch.numbers for batch in batches]),
        group=batches[0].group,
        bad=tuple(bad for batch in batches for bad in batch.bad),
        blank=sum(batch.blank for batch in batches),
        document_ids=Documents.joined(ids) if ids else None,
        columns=pa.concat_batches(columns) if columns else None,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What the function made of a batch, for people."""

    before: list[str]
    """The rows: texts, or JSON."""
    rows: list[int]
    """The row of each document."""
    documents: list[str]
    dropped: Mapping[str, int]
    errors: Mapping[int, str]
    """By row: the last line of the traceback."""

    def after(self, row: int) -> tuple[str, ...]:
        """Return the documents of a row."""
        start, stop = bisect_left(self.rows, row), bisect_right(self.rows, row)
        return tuple(self.documents[start:stop])


def try_function(batch: Batch, rules: DocumentRules, *, is_json_lines: bool) -> Trial:
    """Return what the function of the rules makes of a batch as it is read.

    Raises:
        SourceError: See `transformed`.
    """
    given = _given(batch, rules, is_json_lines=is_json_lines)
    call = _function_of(rules).call(given)
    return Trial(
        before=[text.decode() for text in given.documents],
        rows=call.rows.tolist(),
        documents=[text.decode(errors="replace") for text in Documents.from_arrow(call.documents)],
        dropped=_by_reason(call.dropped),
        errors=call.errors,
    )


def _function_of(rules: DocumentRules) -> "_Function":
    assert rules.transform is not None
    return _Function(rules.transform, rules)


def _given(batch: Batch, rules: DocumentRules, *, is_json_lines: bool) -> Batch:
    """Return the texts and columns of a batch, which has whole lines if several fields are read."""
    are_lines = rules.kind == "text" and is_json_lines and bool(rules.columns)
    return _from_lines(batch, rules) if are_lines else batch


@dataclass(frozen=True, slots=True)
class _Call:
    """What the function made of a batch."""

    rows: NDArray[np.int64]
    documents: pa.Array
    dropped: Mapping[str, int]
    errors: Mapping[int, str]
    """By row: the last line of the traceback."""


@dataclass(frozen=True, slots=True)
class _Function:
    """The function of a source."""

    transform: Transform
    rules: DocumentRules

    def call(self, batch: Batch) -> _Call:
        """Call the function with a batch, and for each row alone if it raises an error."""
        argument = self._argument(batch)
        try:
            return self._called(argument)
        except SourceError:
            raise
        except Exception:  # the code can raise any
            return self._by_row(argument)

    def _argument(self, batch: Batch) -> pa.RecordBatch:
        is_json = self.rules.kind != "text"
        name = filters.JSON if is_json else self.rules.column or "text"
        documents = batch.documents.to_arrow()
        return filters.batch_of(documents, name=name, is_json=is_json, columns=batch.columns)

    def _called(self, argument: pa.RecordBatch) -> _Call:
        returned = load_function(self.transform)(argument)
        try:
            name = argument.schema.names[1]
            result = filters.checked(returned, name=name, num_rows=len(argument))
        except (TypeError, ValueError, pa.ArrowException) as error:
            raise SourceError(f"transform = {self.transform.name!r}: {error}") from error
        return _Call(result.rows, result.documents, result.dropped, {})

    def _by_row(self, argument: pa.RecordBatch) -> _Call:
        rows, documents, dropped = [], [], Counter[str]()
        errors: dict[int, str] = {}
        row_of_one = pa.array([0], pa.int64())
        for row in range(len(argument)):
            one = argument.slice(row, 1).set_column(0, filters.ROW, row_of_one)
            try:
                call = self._called(one)
            except SourceError:
                raise
            except Exception as error:  # the code can raise any
                errors[row] = last_line(error)
                continue
            rows.append(call.rows + row)
            documents.append(call.documents)
            dropped.update(call.dropped)
        nothing = pa.array([], pa.large_string())
        return _Call(
            np.concatenate([np.empty(0, dtype=np.int64), *rows]),
            pa.concat_arrays([nothing, *documents]),
            dropped,
            errors,
        )

    def check_repeated(self, batch: Batch, call: _Call) -> None:
        """Call the function for the first rows again, in two parts, and compare the documents.

        Raises:
            SourceError: They differ.
        """
        count = min(NUM_REPEATED, len(batch.documents))
        argument = self._argument(batch)
        parts = [argument.slice(0, count // 2), argument.slice(count // 2, count - count // 2)]
        again: list[tuple[int, bytes]] = []
        for start, part in zip((0, count // 2), parts, strict=True):
            numbers = pa.array(np.arange(len(part), dtype=np.int64))
            repeated = (
                self._by_row(part)
                if call.errors
                else self._called(part.set_column(0, filters.ROW, numbers))
            )
            again += _pairs(repeated, start=start)
        first = _pairs(call, stop=count)
        if first != again:
            pairs = zip([*first, None], [*again, None], strict=False)
            other = next(one or two for one, two in pairs if one != two)
            row = 0 if other is None else int(batch.numbers[other[0]])
            raise SourceError(
                f"transform = {self.transform.name!r} returns something else for row {row} when it "
                "is called again; its result must depend on the row alone, not on other rows, the "
                "time or random numbers"
            )


def _pairs(call: _Call, *, start: int = 0, stop: int | None = None) -> list[tuple[int, bytes]]:
    """Return the documents of the rows before `stop`, with their rows counted from `start`."""
    end = len(call.rows) if stop is None else int(np.searchsorted(call.rows, stop))
    texts = call.documents.slice(0, end).cast(pa.large_binary()).to_pylist()
    return [(row + start, text) for row, text in zip(call.rows[:end].tolist(), texts, strict=True)]


def _from_lines(batch: Batch, rules: DocumentRules) -> Batch:
    """Return the texts and the other fields of JSON lines; a line without text is bad."""
    good: list[int] = []
    texts: list[bytes] = []
    values: list[list[object]] = []
    bad = list(batch.bad)
    for index, line in enumerate(batch.documents):
        text, _ = by_python(line, field=rules.column, id_field=None)
        if isinstance(text, Rejected):
            bad.append(_bad(batch, index, text.reason, line))
            continue
        row = json.loads(line)
        good.append(index)
        texts.append(text)
        values.append([row.get(name) for name in rules.columns])
    by_name = zip(rules.columns, zip(*values, strict=True), strict=False) if values else ()
    columns = {name: _column([*column]) for name, column in by_name}
    taken = batch.take(np.array(good, dtype=np.int64))
    return replace(
        taken,
        documents=Documents.from_bytes(texts),
        bad=tuple(sorted(bad, key=lambda document: document.number)),
        columns=pa.RecordBatch.from_pydict(columns) if columns else None,
    )


def _column(values: list[Any]) -> pa.Array:
    """Return fields of JSON as an array; as JSON text if they have several types."""
    try:
        return pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):  # or a lone surrogate
        return pa.array([None if value is None else json.dumps(value) for value in values])


def _bad(batch: Batch, index: int, reason: str, document: bytes) -> BadDocument:
    ids = batch.document_ids
    return BadDocument(
        number=int(batch.numbers[index]),
        position=int(batch.positions[index]),
        reason=reason,
        hash64=hash64_of(document),
        num_bytes=len(document),
        id=None if ids is None else ids[index].decode() or None,
    )


def _after(batch: Batch, call: _Call, rules: DocumentRules, *, shift: int) -> tuple[Batch, int]:
    """Return the batch of what the function returned, and the number of further documents."""
    further = np.bincount(call.rows, minlength=len(batch.documents))
    further = np.maximum(further - 1, 0)
    before = shift + np.cumsum(further) - further
    numbers = (batch.numbers + before)[call.rows] + _positions_in_runs(call.rows)
    errors = [
        replace(
            _bad(batch, row, f"{RAISED}{reason}", batch.documents[row]),
            number=int(batch.numbers[row] + before[row]),
        )
        for row, reason in call.errors.items()
    ]
    ids = batch.document_ids
    given = Batch(
        documents=Documents.from_bytes([]),
        positions=batch.positions[call.rows],
        numbers=numbers.astype(np.int64),
        group=batch.group,
        bad=(*_shifted(batch, shift=shift, further=further), *errors),
        blank=batch.blank,
        document_ids=None if ids is None else ids.take(call.rows),
        dropped=_by_reason(call.dropped),
    )
    taken = checked_batch(
        call.documents,
        given,
        max_document_bytes=rules.max_document_bytes,
        is_json=rules.kind != "text",
    )
    bad = sorted(taken.bad, key=lambda document: document.number)
    return replace(taken, bad=tuple(bad)), int(further.sum())


def _positions_in_runs(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the position of each element in its run of equal ones.

    >>> _positions_in_runs(np.array([0, 2, 2, 2, 5])).tolist()
    [0, 0, 1, 2, 0]
    """
    at = np.arange(len(rows))
    return at - np.searchsorted(rows, rows)


def _shifted(
    batch: Batch, *, shift: int, further: NDArray[np.int64] | None = None
) -> tuple[BadDocument, ...]:
    """Return the bad documents of a batch, numbered after the function."""
    if not batch.bad:
        return ()
    more = np.zeros(len(batch.numbers), np.int64) if further is None else further
    before = shift + np.concatenate([[0], np.cumsum(more)])
    return tuple(
        replace(bad, number=bad.number + int(before[np.searchsorted(batch.numbers, bad.number)]))
        for bad in batch.bad
    )


def _by_reason(dropped: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of dropped rows by the beginning of their reason, up to a colon."""
    counts: Counter[str] = Counter()
    for reason, number in dropped.items():
        short = reason.partition(":")[0].strip()[:MAX_REASON_CHARS] or filters.REMOVED
        counts[short] += number
    return dict(sorted(counts.items()))
