"""Rearranges texts for filling in the middle: which ones, in which form, and where they are cut.

The choice is a pure function of a text and the rates (docs/formats.md), so it depends neither on
slices nor on the order of documents. Prefix, middle and suffix are encoded as texts of their own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.formats import DocumentBatch, FimSettings, Ids

_PARTS = _PREFIX, _MIDDLE, _SUFFIX = range(3)
"""Indexes of the parts of a text, and of the special tokens in the settings."""


class Part(NamedTuple):
    """A part of a rearranged document."""

    tokens: tuple[int, ...]
    """The special tokens before it, as indexes."""
    text: int
    """The index of the part in the text."""


FORMS: Final[Mapping[str, tuple[Part, ...]]] = {
    "psm": (Part((_PREFIX,), _PREFIX), Part((_SUFFIX,), _SUFFIX), Part((_MIDDLE,), _MIDDLE)),
    "spm": (Part((_PREFIX, _SUFFIX), _SUFFIX), Part((_MIDDLE,), _PREFIX), Part((), _MIDDLE)),
}
"""The parts of a rearranged document in order; `spm` is the second variant of the paper on it."""

_DRAWS = 4
_BLOCK = 1 << 16  # bytes; so that positions of characters need little memory


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Choice:
    """The documents of a batch that are rearranged, without their cuts."""

    numbers: npt.NDArray[np.int64]
    """Their numbers in the batch."""
    is_spm: npt.NDArray[np.bool_]
    """Which of them have the form `spm`; the others have `psm`."""
    places: npt.NDArray[np.uint64]
    """(n, 2): numbers that become their cuts, modulo the number of places between characters."""

    @property
    def forms(self) -> dict[str, int]:
        """The number of documents of each form."""
        spm = int(np.count_nonzero(self.is_spm))
        return {"psm": len(self.is_spm) - spm, "spm": spm}

    def form(self, number: int) -> tuple[Part, ...]:
        """Return the parts of a rearranged document in order, by its index in `numbers`."""
        return FORMS["spm" if self.is_spm[number] else "psm"]


def choose(documents: Documents, settings: FimSettings) -> Choice:
    """Return which documents of a batch are rearranged."""
    hashes = _core.hash_documents(documents.data, documents.offsets)
    size = hashes.itemsize + 1
    keys = np.empty((len(hashes), _DRAWS, size), dtype=np.uint8)
    keys[:, :, :-1] = hashes.astype("<u8").view(np.uint8).reshape(-1, 1, size - 1)
    keys[:, :, -1] = np.arange(_DRAWS)
    offsets = np.arange(len(hashes) * _DRAWS + 1, dtype=np.int64) * size
    draws = _core.hash_documents(keys.ravel(), offsets).reshape(-1, _DRAWS)
    numbers = np.flatnonzero(_are_below(draws[:, 0], settings.rate))
    return Choice(
        numbers=numbers,
        is_spm=_are_below(draws[numbers, 1], settings.spm_rate),
        places=draws[numbers, 2:],
    )


def _are_below(draws: npt.NDArray[np.uint64], rate: float) -> npt.NDArray[np.bool_]:
    """Return which numbers are below rate * 2**64, exactly."""
    bound = math.ceil(rate * 2.0**64)
    return draws < np.uint64(bound) if bound < 1 << 64 else np.ones(len(draws), dtype=np.bool_)


def cuts_of(document: npt.NDArray[np.uint8], places: Sequence[int]) -> list[int]:
    """Return where a text is cut, as positions in bytes; both can be equal, or at an end.

    >>> cuts_of(np.frombuffer("h\u00e9!".encode(), np.uint8), [2, 5])
    [1, 3]
    """
    is_first = document.view(np.int8) >= -64  # noqa: PLR2004 - other bytes of a character: 10......
    count = int(np.count_nonzero(is_first))
    numbers = sorted(place % (count + 1) for place in places)
    is_ascii = count == len(document)
    return numbers if is_ascii else [_position(is_first, number) for number in numbers]


def _position(is_first: npt.NDArray[np.bool_], number: int) -> int:
    """Return the position of the character with a number, or the end."""
    for start in range(0, len(is_first), _BLOCK):
        found = np.flatnonzero(is_first[start : start + _BLOCK])
        if number < len(found):
            return start + int(found[number])
        number -= len(found)
    return len(is_first)


def _all_cuts(documents: Documents, choice: Choice) -> npt.NDArray[np.int64]:
    """Return where the chosen documents are cut, as positions in the data of the batch, (n, 2)."""
    starts = documents.offsets[choice.numbers]
    sizes = documents.offsets[choice.numbers + 1] - starts
    # Of ASCII, every byte is a character.
    cuts = np.sort(choice.places % (sizes + 1).astype(np.uint64)[:, None], axis=1).astype(np.int64)
    for index in np.flatnonzero(~_are_ascii(documents)[choice.numbers]).tolist():
        text = documents.data[starts[index] : starts[index] + sizes[index]]
        cuts[index] = cuts_of(text, choice.places[index].tolist())
    return cuts + starts[:, None]


def _are_ascii(documents: Documents) -> npt.NDArray[np.bool_]:
    """Return which documents have no byte above 127."""
    starts, end = documents.offsets[:-1], documents.offsets[-1]
    is_filled = starts < documents.offsets[1:]
    are_ascii = np.ones(len(documents), dtype=np.bool_)
    if is_filled.any():
        highest = np.maximum.reduceat(documents.data[:end], starts[is_filled])
        are_ascii[is_filled] = highest < 128  # noqa: PLR2004 - the first byte that is not ASCII
    return are_ascii


class Arrangement:
    """A batch with rearranged documents, whose parts are encoded as one batch."""

    def __init__(self, documents: Documents, settings: FimSettings) -> None:
        """Choose documents and cut them."""
        self._choice, self._count = choose(documents, settings), len(documents)
        cuts = _all_cuts(documents, self._choice)
        offsets = np.concatenate([documents.offsets, cuts.ravel()])
        self.parts = Documents(data=documents.data, offsets=np.sort(offsets))
        """Prefix, middle and suffix of each rearranged document, and the others as they are."""

    def joined(
        self,
        ids: Ids,
        offsets: npt.NDArray[np.int64],
        *,
        tokens: Sequence[int],
        before: Sequence[int],
        after: Sequence[int],
    ) -> DocumentBatch:
        """Return the documents, given the ids of the parts and of the special tokens."""
        around = [[token] for token in tokens] + [[*before], [*after]]
        specials = [np.array(each, dtype=ids.dtype) for each in around]
        edges, count = offsets.tolist(), len(offsets) - 1
        picks, starts = self._picks(count)
        rows = [
            ids[edges[row] : edges[row + 1]] if row < count else specials[row - count]
            for row in picks.tolist()
        ]
        lengths = np.concatenate([np.diff(offsets), [len(each) for each in around]])
        positions = offsets_of(lengths[picks])[starts]
        return DocumentBatch(ids=np.concatenate([ids[:0], *rows]), positions=positions)

    def _picks(self, specials: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows of all documents in order, and at which of these each document begins.

        Rows are the parts, and from `specials` on the three tokens and those around a document.
        """
        numbers, is_spm = self._choice.numbers, self._choice.is_spm
        counts = np.ones(self._count, dtype=np.int64)
        counts[numbers] = len(_PARTS)
        firsts = offsets_of(counts)[:-1]
        starts = offsets_of(np.where(counts > 1, 2 * len(_PARTS), 1) + 2)
        picks = np.repeat(firsts, np.diff(starts))
        picks[starts[:-1]] = specials + len(_PARTS)
        picks[starts[1:] - 1] = specials + len(_PARTS) + 1
        for form, chosen in (("psm", numbers[~is_spm]), ("spm", numbers[is_spm])):
            at = 1
            for part in FORMS[form]:
                for token in part.tokens:
                    picks[starts[chosen] + at] = specials + token
                    at += 1
                picks[starts[chosen] + at] = firsts[chosen] + part.text
                at += 1
        return picks, starts
