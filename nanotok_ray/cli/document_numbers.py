"""Numbers of documents as a command line gives them: `7`, `-1`, `0-9`.

Takes words and how many documents there are; gives numbers. Opens nothing.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Final

from nanotok_ray.errors import RecipeError

MAX_SHOWN: Final = 1000
"""Documents shown at once; a page of more is of no use."""

Range = tuple[int, int]
"""The first and the last, counted from the end if negative."""

_RANGE: Final = re.compile(r"(-?\d{1,18})(?:-(-?\d{1,18}))?", re.ASCII)


def document_range(text: str) -> Range:
    """Read a number or a range, as argparse wants it.

    >>> document_range("7"), document_range("-1"), document_range("0-9")
    ((7, 7), (-1, -1), (0, 9))
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no document: give a number (7), or 0-9")
    first, last = found.groups()
    return int(first), int(first if last is None else last)


def numbers_of(ranges: Sequence[Range], *, count: int, where: str) -> list[int]:
    """Give the number of each document asked for, from 0 on, in the order asked for.

    >>> numbers_of([(-1, -1), (0, 2)], count=5, where="split train")
    [4, 0, 1, 2]

    Raises:
        RecipeError: There is no such document, or they are too many, or a range runs backwards.
    """
    numbers: list[int] = []
    for first, last in ranges:
        asked = f"--doc {first}" if first == last else f"--doc {first}-{last}"
        if not (-count <= first < count and -count <= last < count):
            raise RecipeError(
                f"{asked}: there are {count} documents in {where}, counted from 0, or from the end "
                "as -1"
            )
        start, stop = first % count, last % count + 1
        if start >= stop:
            raise RecipeError(f"{asked}: the last comes before the first; swap them")
        if len(numbers) + stop - start > MAX_SHOWN:
            raise RecipeError(
                f"{asked}: more than {MAX_SHOWN} documents at once; show them a part at a time"
            )
        numbers.extend(range(start, stop))
    return numbers
