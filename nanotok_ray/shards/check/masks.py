"""Conversations and vision documents compared with the reference reading of their dialect."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nanotok_ray.chat.reference import segments_of
from nanotok_ray.dialects import MALFORMED, Dialect, reason_of
from nanotok_ray.documents.batch import Documents, offsets_of, to_utf8
from nanotok_ray.shards.check.written import (
    Compared,
    Run,
    account_problems,
    positions_in,
    read_again,
    unequal,
)
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.sources.quarantine import SKIPPED
from nanotok_ray.sources.slices import SliceReading
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.rendering import Ids

Flags = npt.NDArray[np.uint8]
"""Of each byte: 1 for a byte that is trained on, and 2 for one of a special token's name."""

OTHER_TEXT = "its ids do not decode to it"
OTHER_MASK = "its mask is another, or special tokens are where it has text"
OTHER_IMAGES = "it has other images"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainReading:
    """What comparing needs of a tokenizer and the settings of a source."""

    tokenizer: Tokenizer
    lowest: int
    """The ids from here on are special tokens."""
    special_ids: tuple[int, ...]
    lengths: npt.NDArray[np.int32]
    """Bytes that each id decodes to."""
    cut_at: int | None
    """Documents of so many tokens may have been cut; None: none was."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, settings: ShardSettings) -> Self:
        """Take what the settings say of long documents."""
        lengths = tokenizer.model.token_lengths()
        for name, number in tokenizer.special_tokens.items():
            lengths[number] = len(name.encode())
        return cls(
            tokenizer=tokenizer,
            lowest=len(tokenizer.model.tokens),
            special_ids=tuple(tokenizer.special_tokens.values()),
            lengths=lengths,
            cut_at=settings.max_tokens if settings.too_long == "cut" else None,
        )

    def problems(
        self, run: Run, documents: Documents, dialect: Dialect
    ) -> Iterator[tuple[int, str]]:
        """Yield the number in the run of each document that is not the one of its row, and why."""
        bounds = offsets_of(run.lengths)
        ids, unknown = self._known(run)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(ids, bounds, as_bytes=True))
        # One byte more than there is shows that a text continues, unless it was cut there.
        max_bytes = np.diff(decoded.offsets) + (run.lengths != self.cut_at)
        expected = _Expected()
        for number, limit in enumerate(max_bytes.tolist()):
            expected.add(documents[number], dialect, limit=limit)
        texts = Documents.from_bytes(expected.texts)
        wrong_text = unequal(decoded, texts)
        wrong_text[np.searchsorted(bounds, unknown, side="right") - 1] = True
        wrong_mask = _differing(
            self._flags(ids, run.mask), decoded.offsets, expected.flags, texts.offsets
        )
        wrong_images = _other_images(run, expected.images)
        for number in range(len(run.lengths)):
            if number in expected.malformed:
                yield number, f"the plain reading refuses it: {expected.malformed[number]}"
            elif wrong_text[number]:
                yield number, OTHER_TEXT
            elif wrong_mask[number]:
                yield number, OTHER_MASK
            elif wrong_images[number]:
                yield number, OTHER_IMAGES

    def _known(self, run: Run) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Return the ids that can be decoded, and the positions of the others."""
        high = np.flatnonzero(run.ids >= self.lowest)
        unknown = high[~np.isin(run.ids[high], self.special_ids)]
        if not len(unknown):
            return run.ids, unknown
        ids = run.ids.copy()
        ids[unknown] = 0
        return ids, unknown

    def _flags(self, ids: Ids, mask: npt.NDArray[np.uint8] | None) -> Flags:
        """Return the flags of all bytes that ids decode to."""
        special = (ids >= self.lowest).astype(np.uint8) << np.uint8(1)
        flags = special if mask is None else special | mask
        return np.repeat(flags, self.lengths[ids])


@dataclass(slots=True)
class _Expected:
    """What documents must decode to, by their segments; grows document by document."""

    texts: list[bytes | bytearray] = field(default_factory=list)
    images: list[list[int]] = field(default_factory=list)
    """Of each document: the tokens of each image."""
    malformed: dict[int, str] = field(default_factory=dict)
    _sizes: list[int] = field(default_factory=list)
    _flags: list[int] = field(default_factory=list)

    def add(self, document: bytes, dialect: Dialect, *, limit: int) -> None:
        """Append a document, of which the first `limit` bytes are wanted."""
        try:
            segments = segments_of(document, dialect)
        except MALFORMED as error:
            self.malformed[len(self.texts)] = reason_of(error)
            segments = []
        self.images.append([segment.count for segment in segments if segment.role == "image"])
        text = bytearray()
        for segment in segments:
            # Each by itself: surrogates that end one text and begin the next are no pair.
            encoded = to_utf8(segment.text)
            copies = min(segment.count, (limit - len(text)) // max(len(encoded), 1) + 1)
            part = (encoded * copies)[: limit - len(text)]
            text += part
            self._sizes.append(len(part))
            self._flags.append(segment.mask | segment.is_special << 1)
        self.texts.append(text)

    @property
    def flags(self) -> Flags:
        """Of the bytes of all texts."""
        return np.repeat(np.array(self._flags, np.uint8), np.array(self._sizes, np.int64))


def _differing(
    flags: Flags, bounds: npt.NDArray[np.int64], other: Flags, other_bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return whether the bytes of each document have other flags."""
    return unequal(
        Documents(data=flags, offsets=bounds), Documents(data=other, offsets=other_bounds)
    )


def _other_images(run: Run, expected: Sequence[Sequence[int]]) -> npt.NDArray[np.bool_]:
    """Return whether each document has other images, or images of other lengths.

    Where they stand follows: image tokens are in images alone, and special tokens where they must.
    """
    if run.images is None:
        return np.zeros(len(expected), dtype=bool)
    bounds = np.searchsorted(run.images[:, 0], np.arange(len(expected) + 1))
    sizes = (run.images[:, 2] - run.images[:, 1]).tolist()
    return np.array(
        [
            sizes[bounds[number] : bounds[number + 1]] != list(expected_sizes)
            for number, expected_sizes in enumerate(expected)
        ],
        dtype=bool,
    )


def compare_masks(
    folder: Folder,
    slice_: Slice,
    values: Mapping[str, Any],
    *,
    tokenizer: Tokenizer,
    settings: ShardSettings,
) -> Compared:
    """Compare all documents of a slice whose files were checked, and which have masks.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    found = Compared()
    if SKIPPED in values["quarantined"]:  # it was left out unread
        return found
    # With the ids, which are among the bytes that the record's sha256 is of.
    reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
    comparison = _Comparison(
        slice=slice_,
        settings=settings,
        plain=PlainReading.of(tokenizer, settings),
        found=found,
    )
    is_read = read_again(
        folder,
        reading,
        values,
        item_bytes=tokenizer.model.id_bytes,
        found=found,
        on_batch=comparison.compare,
    )
    if is_read:
        found.problems[:0] = account_problems(values, reading)
        found.end(slice_.source)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Comparison:
    """One slice being compared, batch by batch."""

    slice: Slice
    settings: ShardSettings
    plain: PlainReading
    found: Compared

    def compare(self, piece: int, batch: Batch, runs: Iterator[Run]) -> None:
        """Compare the written documents of a batch with those of the source."""
        source = self.slice.pieces[piece]
        assert source.dialect is not None, "the plan names the dialect of every such file"
        dialect = self.settings.dialect(self.slice.kind, source.dialect)
        for run in runs:
            self.found.documents += len(run.rows)
            at, missing = positions_in(batch, run)
            for number in missing.tolist():
                self.found.add(
                    f"{run.describe(number)} is not row {run.rows[number]} of {source.path}"
                )
            if len(missing):
                continue
            for number, why in self.plain.problems(run, batch.documents.take(at), dialect):
                row = run.rows[number]
                self.found.add(f"{run.describe(number)} is not row {row} of {source.path}: {why}")
