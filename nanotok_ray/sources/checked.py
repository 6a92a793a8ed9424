"""Checks the texts of a batch that Arrow or a function gave: nulls, size, and UTF-8."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nanotok_ray import _core
from nanotok_ray.documents import Documents
from nanotok_ray.sources.batch import BadDocument, Batch, hash64_of
from nanotok_ray.sources.json_lines import MAX_VALUES, invalid_utf8, too_large, too_many_values
from nanotok_ray.sources.stored import invalid_at


def is_utf8(array: pa.Array) -> bool:
    """Return whether all strings of an array without nulls are UTF-8; Arrow does not check."""
    documents = Documents.from_arrow(array)
    return _core.is_utf8(documents.data, documents.offsets)


def checked_batch(
    texts: pa.Array, batch: Batch, *, max_document_bytes: int, is_json: bool, column: str = ""
) -> Batch:
    """Return a batch with the texts that can be used, and an entry for each of the others.

    Args:
        texts: An array of strings.
        batch: The positions and other values of the texts. Its documents are not used.
        max_document_bytes: The limit of a text.
        is_json: Whether the texts are documents of JSON.
        column: The column of the texts, for messages.
    """
    limit = min(max_document_bytes, MAX_VALUES) if is_json else max_document_bytes
    if not (texts.null_count or _has_larger(texts, limit) or not is_utf8(texts)):
        return replace(batch, documents=Documents.from_arrow(texts))
    good: list[int] = []
    bad: list[BadDocument] = []
    ids = batch.document_ids
    for index, value in enumerate(texts.cast(pa.large_binary())):  # slow, only for bad batches
        problem = _problem(value, limit=max_document_bytes, is_json=is_json, column=column)
        if problem is None:
            good.append(index)
            continue
        reason, hash64, num_bytes = problem
        bad.append(
            BadDocument(
                number=int(batch.numbers[index]),
                position=int(batch.positions[index]),
                reason=reason,
                hash64=hash64,
                num_bytes=num_bytes,
                id=None if ids is None else ids[index].decode() or None,
            )
        )
    at = np.array(good, dtype=np.int64)
    return replace(
        batch,
        documents=Documents.from_arrow(texts.take(pa.array(at))),
        positions=batch.positions[at],
        numbers=batch.numbers[at],
        document_ids=None if ids is None else ids.take(at),
        columns=None if batch.columns is None else batch.columns.take(pa.array(at)),
        bad=(*batch.bad, *bad),
    )


def _has_larger(texts: pa.Array, limit: int) -> bool:
    if texts.nbytes <= limit:  # all texts together
        return False
    max_bytes = pc.max(pc.binary_length(texts)).as_py()
    return max_bytes is not None and int(max_bytes) > limit


def _problem(
    value: pa.Scalar, *, limit: int, is_json: bool, column: str
) -> tuple[str, int | None, int] | None:
    """Return reason, hash64 and size of a text that cannot be used, or None for another one."""
    if not value.is_valid:
        return f"field is null: {column!r}", None, 0
    raw = value.as_buffer()
    if raw.size > limit:
        return too_large(f"{raw.size} bytes", limit=limit), None, raw.size
    if is_json and (many := too_many_values(raw)):
        return many, hash64_of(raw), raw.size
    position = invalid_at(raw)
    return None if position is None else (invalid_utf8(position), hash64_of(raw), raw.size)
