"""Renders batches of conversations and vision documents to ids with labels, or to texts.

The core renders well-formed documents. Other documents fall back to the reference implementation,
which renders them, or raises an error that names the problem.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.chat.reference import message_texts, segments_of
from nanotok_ray.chat.segments import Segment
from nanotok_ray.dialects import (
    MALFORMED,
    Dialect,
    metadata_of,
    reason_of,
    unused_text,
    value_of,
)
from nanotok_ray.documents import Documents, offsets_of, to_utf8
from nanotok_ray.errors import SplitError

if TYPE_CHECKING:
    from typing_extensions import Self

_NO_ROWS = np.zeros((0, 3), dtype=np.int64)
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RenderedBatch:
    """The documents of a batch; those that cannot be rendered have no ids and a problem."""

    ids: Ids
    """The concatenated ids of all documents."""
    labels: npt.NDArray[np.uint8]
    """The label of each id; see `Segment.label`."""
    offsets: npt.NDArray[np.int64]
    """[n + 1] positions in the ids; the first is 0."""
    images: npt.NDArray[np.int64]
    """(m, 3): document, and the start and end of the tokens of the image in the document."""
    sizes: npt.NDArray[np.int64]
    """(n, 2): bytes of the texts of a document, and names of special tokens in these texts."""
    unused_keys: Sequence[str] = ()
    """Keys whose text is not rendered."""
    unused: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)
    """(m, 3): document, index in `unused_keys`, and number of values of that key with text."""
    problems: Mapping[int, str]
    """Document index to reason, in order."""

    @property
    def mask(self) -> npt.NDArray[np.uint8]:
        """1 for each id that is trained on, else 0."""
        return self.labels & np.uint8(1)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def part(self, start: int, stop: int) -> "RenderedBatch":
        """Return the documents from `start` up to `stop`, numbered from 0."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return RenderedBatch(
            ids=self.ids[first:last],
            labels=self.labels[first:last],
            offsets=self.offsets[start : stop + 1] - first,
            images=_rows_of(self.images, start, stop),
            sizes=self.sizes[start:stop],
            unused_keys=self.unused_keys,
            unused=_rows_of(self.unused, start, stop),
            problems={n - start: why for n, why in self.problems.items() if start <= n < stop},
        )

    @classmethod
    def joined(cls, batches: "Sequence[RenderedBatch]") -> "Self":
        """Return the documents of all batches, of which there must be at least one, in order."""
        firsts = offsets_of(np.array([len(batch) for batch in batches]))
        keys: dict[str, int] = {}
        unused = [batch.unused_as(keys) for batch in batches]
        return cls(
            ids=np.concatenate([batch.ids for batch in batches]),
            labels=np.concatenate([batch.labels for batch in batches]),
            offsets=offsets_of(np.concatenate([np.diff(batch.offsets) for batch in batches])),
            images=_joined_rows([batch.images for batch in batches], firsts),
            sizes=np.concatenate([batch.sizes for batch in batches]),
            unused_keys=tuple(keys),
            unused=_joined_rows(unused, firsts),
            problems={
                int(first) + number: why
                for first, batch in zip(firsts, batches, strict=False)
                for number, why in batch.problems.items()
            },
        )

    def replaced(
        self, numbers: Sequence[int], render: "Callable[[int], RenderedBatch]"
    ) -> "RenderedBatch":
        """Return the batch with other batches of one document in the place of some documents."""
        if not numbers:
            return self
        parts, start = [], 0
        for number in numbers:
            parts += [self.part(start, number), render(number)]
            start = number + 1
        return RenderedBatch.joined([*parts, self.part(start, len(self))])

    def unused_as(self, keys: dict[str, int]) -> npt.NDArray[np.int64]:
        """Return `unused` with the indexes of `keys`, to which missing keys are added."""
        used, positions = np.unique(self.unused[:, 1], return_inverse=True)
        numbers = [keys.setdefault(self.unused_keys[key], len(keys)) for key in used.tolist()]
        renamed = self.unused.copy()
        renamed[:, 1] = np.array(numbers, dtype=np.int64)[positions]
        return renamed


def _rows_of(rows: npt.NDArray[np.int64], start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the rows of the documents from `start` up to `stop`, which are numbered from 0."""
    first, last = np.searchsorted(rows[:, 0], (start, stop))
    return np.subtract(rows[first:last], [start, 0, 0])


def _joined_rows(
    parts: Sequence[npt.NDArray[np.int64]], firsts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the rows of all batches, whose first documents get the numbers `firsts`."""
    shifted = zip(parts, firsts, strict=False)
    return np.concatenate([rows + np.array([first, 0, 0]) for rows, first in shifted])


class TextEncoder(Protocol):
    """What encodes the texts of documents."""

    def encode(self, document: bytes) -> npt.NDArray[np.uint32]:
        """Return the ids of one text."""


class BatchRenderer:
    """Renders the documents of one dialect with one tokenizer."""

    def __init__(
        self,
        encoder: "_core.Encoder | TextEncoder",
        special_tokens: Mapping[str, int],
        dialect: Dialect,
        *,
        wide: bool,
    ) -> None:
        """Store an encoder; `wide` if ids or special tokens exceed 16 bits.

        Raises:
            TokenizerError: The dialect is unknown.
        """
        self._encoder, self._dialect, self._wide = encoder, dialect, wide
        self._special = dict(special_tokens)
        self._core_dialect = core_dialect(dialect)

    def render(self, documents: Documents, *, num_threads: int = 1) -> RenderedBatch:
        """Render documents; a document that cannot be rendered gets a problem and no exception."""
        if not isinstance(self._encoder, _core.Encoder):
            none = self._problem("").part(0, 0)
            return RenderedBatch.joined([none, *map(self._plain, documents)])
        try:
            ids, labels, offsets, fallback, images, sizes, keys, unused = self._encoder.render(
                self._core_dialect,
                list(self._special.items()),
                documents.data,
                documents.offsets,
                threads=num_threads,
                wide=self._wide,
            )
        except SplitError as error:
            if len(documents) == 1:
                return self._problem(error.reason)
            halves = (0, len(documents) // 2, len(documents))
            return RenderedBatch.joined(
                [
                    self.render(
                        documents.part(halves[half], halves[half + 1]), num_threads=num_threads
                    )
                    for half in range(2)
                ]
            )
        rendered = RenderedBatch(
            ids=ids,
            labels=labels,
            offsets=offsets,
            images=images,
            sizes=sizes,
            unused_keys=keys,
            unused=unused,
            problems={},
        )
        return rendered.replaced(fallback.tolist(), lambda number: self._plain(documents[number]))

    def _plain(self, document: bytes) -> RenderedBatch:
        try:
            segments = segments_of(document, self._dialect)
            parts = [self._ids_of(segment) for segment in segments]
            unused = unused_text(value_of(document), self._dialect)
        except SplitError as error:
            return self._problem(error.reason)
        except MALFORMED as error:
            return self._problem(reason_of(error))
        return self._rendered(segments, parts, unused)

    def _rendered(
        self,
        segments: Sequence[Segment],
        parts: Sequence[npt.NDArray[np.uint32]],
        unused: Mapping[str, int],
    ) -> RenderedBatch:
        """Return a document from the ids of its segments, as arrays, which are small."""
        texts = Documents.from_strings(
            [segment.text for segment in segments if not segment.is_special]
        )
        names = list(self._special)
        spelled = _core.count_occurrences(texts.data, texts.offsets, names)
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        positions = offsets_of(lengths)
        images = [number for number, segment in enumerate(segments) if segment.role == "image"]
        zeros = np.zeros(len(images), dtype=np.int64)
        return RenderedBatch(
            ids=self._narrowed(np.concatenate(parts)),
            labels=np.repeat(np.array([segment.label for segment in segments], np.uint8), lengths),
            offsets=positions[[0, -1]],
            images=np.column_stack([zeros, positions[:-1][images], positions[1:][images]]),
            sizes=np.array([[texts.num_bytes, spelled]], dtype=np.int64),
            unused_keys=tuple(unused),
            unused=np.array([(0, *item) for item in enumerate(unused.values())], np.int64).reshape(
                -1, 3
            ),
            problems={},
        )

    def _ids_of(self, segment: Segment) -> npt.NDArray[np.uint32]:
        if segment.is_special:
            return np.full(segment.count, self._special[segment.text], dtype=np.uint32)
        return self._encoder.encode(to_utf8(segment.text))

    def _narrowed(self, ids: npt.NDArray[np.uint32]) -> Ids:
        return ids if self._wide else ids.astype(np.uint16)

    def _problem(self, reason: str) -> RenderedBatch:
        return RenderedBatch(
            ids=self._narrowed(np.zeros(0, dtype=np.uint32)),
            labels=np.zeros(0, dtype=np.uint8),
            offsets=np.zeros(2, dtype=np.int64),
            images=_NO_ROWS,
            sizes=np.zeros((1, 2), dtype=np.int64),
            problems={0: reason},
        )


def core_dialect(dialect: Dialect) -> _core.Dialect:
    """Return the core's reader of a dialect.

    Raises:
        TokenizerError: The dialect is unknown.
    """
    return _core.Dialect(
        "chat" if dialect.kind == "chat" else "vision",
        dialect.name,
        image_token=dialect.image_token,
        image_tokens=dialect.image_tokens,
        grounding=dialect.grounding,
        train_prompt=dialect.train_prompt,
        metadata=metadata_of(dialect),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BatchTexts:
    """The texts of a batch that are encoded on their own."""

    texts: Documents
    bounds: npt.NDArray[np.int64]
    """The index of each document's first text, and the end ([n + 1]); a bad document has no texts.
    """
    problems: Mapping[int, str]
    """Document index to reason, in order."""


def texts_of(dialect: Dialect, documents: Documents) -> BatchTexts:
    """Return the texts of documents as they would be passed to an encoder."""
    data, offsets, bounds, fallback = core_dialect(dialect).texts(documents.data, documents.offsets)
    texts = Documents(data=data, offsets=offsets)
    if not len(fallback):
        return BatchTexts(texts=texts, bounds=bounds, problems={})
    parts, counts, problems = [], np.diff(bounds), {}
    start = 0
    for number in fallback.tolist():
        try:
            strings = Documents.from_strings(message_texts(documents[number], dialect))
        except MALFORMED as error:
            problems[number], strings = reason_of(error), Documents.from_bytes([])
        parts += [texts.part(start, int(bounds[number])), strings]
        start, counts[number] = int(bounds[number]), len(strings)
    joined = Documents.joined([*parts, texts.part(start, len(texts))])
    return BatchTexts(texts=joined, bounds=offsets_of(counts), problems=problems)
