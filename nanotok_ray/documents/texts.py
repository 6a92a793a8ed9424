"""Texts of Python and Arrow as batches of documents, without a copy where the source is Arrow."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from nanotok_ray.documents.arrow_texts import ArrowTexts
from nanotok_ray.documents.batch import Documents, Nulls, to_utf8
from nanotok_ray.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

if TYPE_CHECKING:
    Texts: TypeAlias = (
        Iterable[str | None] | Iterable[bytes | None] | Documents | pa.Array | pa.ChunkedArray
    )

BATCH_BYTES = 8 * 1024 * 1024
BATCH_TEXTS = 8192


def batches_of(texts: "Texts", *, nulls: Nulls = "error") -> Iterator[Documents]:
    """Return texts of any kind in batches; what is in one buffer already is not copied.

    >>> [list(batch) for batch in batches_of(iter([b"a", None]), nulls="empty")]
    [[b'a', b'']]

    Raises:
        TypeError: `texts` is one text; or a text is neither str nor bytes, is of the other type
            than the first, or is None that is not to be empty.
        SourceError: An array holds something else than texts, or a null (and its first row); or
            `nulls` is neither "error" nor "empty".
    """
    if nulls not in get_args(Nulls):
        raise SourceError(f'nulls is {nulls!r}: it must be "error" or "empty"')
    if isinstance(texts, str | bytes):
        raise TypeError("expected texts, got one text: put it into a list")
    if isinstance(texts, Documents):
        return iter([texts])
    if hasattr(texts, "null_count"):
        return _arrow_batches(ArrowTexts.from_arrow(texts, nulls=nulls))
    given, kind = _first_of(iter(texts))
    if nulls == "empty":
        given = (kind() if text is None else text for text in given)
    return text_batches(given, encode=_as_bytes if kind is bytes else to_utf8)


def text_batches(
    texts: Iterable[str], *, encode: Callable[[Any], bytes] = to_utf8
) -> Iterator[Documents]:
    """Yield batches of texts, large enough that a call of the core has work for all its threads."""
    batch: list[bytes] = []
    num_bytes = 0
    for text in texts:
        batch.append(encode(text))
        num_bytes += len(batch[-1])
        if num_bytes >= BATCH_BYTES or len(batch) >= BATCH_TEXTS:
            yield Documents.from_bytes(batch)
            batch, num_bytes = [], 0
    yield Documents.from_bytes(batch)


def _first_of(texts: Iterator[Any]) -> tuple[Iterator[Any], type[str] | type[bytes]]:
    """Return the texts again, and bytes if the first that is not missing is of that type."""
    seen = []
    for text in texts:
        seen.append(text)
        if text is not None:
            break
    is_bytes = bool(seen) and isinstance(seen[-1], bytes)
    return chain(seen, texts), bytes if is_bytes else str


def _as_bytes(text: Any) -> bytes:  # noqa: ANN401 - what an iterable of bytes turns out to give
    if not isinstance(text, bytes):
        raise TypeError(f"{type(text).__name__!r} object is not bytes, as the texts before it are")
    return text


def _arrow_batches(texts: ArrowTexts) -> Iterator[Documents]:
    """Yield every row; those of a dictionary are copied, a batch at a time."""
    if texts.picks is None:
        yield from texts.parts()
        return
    values = Documents.joined(texts.chunks)
    array = values.to_arrow(as_bytes=True)
    ends = np.cumsum(np.diff(values.offsets)[texts.picks])
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, done + BATCH_BYTES))
        stop = min(max(fitting, start + 1), start + BATCH_TEXTS)
        yield Documents.from_arrow(array.take(texts.picks[start:stop]))
        start = stop
