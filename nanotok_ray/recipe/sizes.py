"""Whole numbers as people write them: 268435456, "256MiB", "10_000", 2e9.

Takes one value of a recipe; gives an int. Does not know the limits of any key.
"""

import re
from decimal import Decimal

from nanotok_ray.errors import RecipeError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_NUMBER = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][0-9]{1,2})?)\s*([A-Za-z]*)")


def parse_size(value: object, *, key: str) -> int:
    """Read a whole number with an optional unit (KB, MB, GB, TB or KiB, MiB, GiB, TiB).

    Raises:
        RecipeError: the value is not a whole number.

    >>> parse_size("256MiB", key="limits.slice_bytes")
    268435456
    >>> parse_size(2e9, key="limits.max_chars")
    2000000000
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value.strip())):
        unit = _UNITS.get(match[2].lower())
        if unit is not None:
            number = Decimal(match[1]) * unit
            if number == number.to_integral_value():
                return int(number)
    raise RecipeError(
        f'{key} = {value!r} is not a whole number; write one like 268435456, "256MiB" or "10_000"'
    )
