"""Whole lines of plain text, or of JSON that nobody parses here, to documents, all at once.

Takes a block of lines and gives what the path of one line after the other gives, or None where a
line needs a closer look. Does not know files.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents, offsets_of

_LINE_FEED, _CARRIAGE_RETURN, _SPACE = b"\n\r "


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlainLines:
    """The lines of a block that are not blank."""

    documents: Documents
    places: NDArray[np.int64]
    """Where each begins in the block."""
    blank: int
    """How many others there are."""


def split_plain(block: bytes, *, most: int, is_json: bool = False) -> PlainLines | None:
    r"""Give the lines of a block that ends with a line break.

    Blank is what is empty; of JSON also what holds nothing but white space. None: a line has more
    than `most` bytes or is not UTF-8.

    >>> lines = split_plain(b"one\r\n\n2\n", most=3)
    >>> list(lines.documents), lines.places.tolist(), lines.blank
    ([b'one', b'2'], [0, 6], 1)
    """
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    has_return = (ends > starts) & (data[ends - 1] == _CARRIAGE_RETURN)
    lengths = ends - starts - has_return
    if lengths.max() > most:
        return None
    is_text = np.ones(len(data), dtype=bool)
    is_text[ends] = False
    is_text[ends[has_return] - 1] = False
    filled = lengths > 0
    if is_json:
        for number in _white(block, data, starts, filled):
            filled[number] = False
            is_text[starts[number] : ends[number]] = False
    lengths = lengths[filled]
    documents = Documents(data=data[is_text], offsets=offsets_of(lengths))
    try:
        documents.to_arrow().validate(full=True)
    except pa.ArrowInvalid:
        return None
    blank = len(filled) - len(lengths)
    return PlainLines(documents=documents, places=starts[filled], blank=blank)


def _white(
    block: bytes, data: NDArray[np.uint8], starts: NDArray[np.int64], filled: NDArray[np.bool_]
) -> list[int]:
    """Give the numbers of filled lines of white space alone; few begin with it."""
    may_be = np.flatnonzero(filled & (data[starts] <= _SPACE))
    return [number for number in may_be.tolist() if _is_white(block, int(starts[number]))]


def _is_white(block: bytes, start: int) -> bool:
    return block[start : block.index(b"\n", start)].isspace()
