"""Arrays of token ids: uint16 or uint32, and rows of them by n + 1 offsets, int64.

Says what the core can read as it lies, and makes it so. Does not know what an id stands for.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

_ID_TYPES = (np.dtype(np.uint16), np.dtype(np.uint32))
_OFFSET_TYPES = (np.dtype(np.int64),)


def is_plain(ids: NDArray[Any]) -> TypeGuard[Ids]:
    """Say whether ids are of one dimension, a width of ours, and without holes between them.

    >>> is_plain(np.array([7, 8], np.uint16)), is_plain(np.array([7, 8], np.int64))
    (True, False)
    """
    flags = ids.flags
    return ids.dtype in _ID_TYPES and ids.ndim == 1 and flags.c_contiguous and flags.aligned


def required(ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
    """Give both as they are, copied only if they lie otherwise than the core reads them.

    >>> ids, offsets = required(np.arange(9, dtype=np.uint16)[::4], np.array([0, 3]))
    >>> ids.tolist(), is_plain(ids)
    ([0, 4, 8], True)

    Raises:
        TypeError: One is no array of one dimension and of its types; the message says what it is.
    """
    _check(ids, "ids", _ID_TYPES)
    _check(offsets, "offsets", _OFFSET_TYPES)
    plain: tuple[Literal["C"], Literal["A"]] = ("C", "A")
    return np.require(ids, requirements=plain), np.require(offsets, requirements=plain)


def _check(array: object, name: str, types: Sequence[np.dtype[Any]]) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in types:
        given = f"{array.ndim}-d {array.dtype}" if isinstance(array, np.ndarray) else type(array)
        wanted = " or ".join(map(str, types))
        raise TypeError(f"{name} must be a 1-d array of {wanted}, got {given}")
