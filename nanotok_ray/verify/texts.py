"""Ids of texts against the texts: the frame of special tokens, and what is between decoded.

Takes many documents at once; decodes them in one call of the core. Encodes nothing.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from nanotok_ray.documents.batch import Documents, offsets_of
from nanotok_ray.shards import ShardSettings
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.model import NUM_BYTES
from nanotok_ray.tokenizer.rendering import Ids


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFrame:
    """How a text becomes a document: special tokens before and after its ids."""

    tokenizer: Tokenizer
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, settings: ShardSettings) -> Self:
        """Take the frame that the settings name."""
        special = tokenizer.encode_special
        return cls(
            tokenizer=tokenizer,
            before=tuple(map(special, settings.prepend)),
            after=tuple(map(special, settings.append)),
        )

    def differing(
        self, ids: Ids, lengths: npt.NDArray[np.int64], documents: Documents
    ) -> npt.NDArray[np.int64]:
        """Give the numbers of the documents whose ids are not the frame around the text."""
        size = len(self.before) + len(self.after)
        if (lengths < size).any():
            return np.flatnonzero(lengths < size)
        ends = np.cumsum(lengths)
        wrong, is_text = self._framed(ids, ends - lengths, ends)
        inner = ids[is_text] if size else ids
        bounds = offsets_of(lengths - size)
        # Decoded, the name of a special token and the token itself look the same.
        lowest = NUM_BYTES + len(self.tokenizer.model.merges)
        special = np.flatnonzero(inner >= lowest)
        if len(special):
            wrong[np.searchsorted(bounds, special, side="right") - 1] = True
            inner = np.where(inner >= lowest, inner.dtype.type(0), inner)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(inner, bounds, as_bytes=True))
        return np.flatnonzero(wrong | unequal(decoded, documents))

    def _framed(
        self, ids: Ids, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Give which documents have another frame, and which ids are no frame."""
        wrong = np.zeros(len(starts), dtype=bool)
        is_text = np.ones(len(ids), dtype=bool)
        for first, numbers in ((starts, self.before), (ends - len(self.after), self.after)):
            for shift, number in enumerate(numbers):
                wrong |= ids[first + shift] != number
                is_text[first + shift] = False
        return wrong, is_text


def unequal(own: Documents, other: Documents) -> npt.NDArray[np.bool_]:
    """Tell of each document whether it is another than that of the other batch."""
    lengths, expected = np.diff(own.offsets), np.diff(other.offsets)
    if not np.array_equal(lengths, expected):
        return np.array(
            [own[number] != other[number] for number in range(len(lengths))], dtype=bool
        )
    mine = own.data[own.offsets[0] : own.offsets[-1]]
    theirs = other.data[other.offsets[0] : other.offsets[-1]]
    unequal = np.zeros(len(lengths), dtype=bool)
    if not np.array_equal(mine, theirs):
        places = np.flatnonzero(mine != theirs) + own.offsets[0]
        unequal[np.searchsorted(own.offsets, places, side="right") - 1] = True
    return unequal
