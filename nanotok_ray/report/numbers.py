"""Numbers as people read them: with units, and no more digits than they can use.

Input is numbers. Output is text without markup.
"""

import math
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EXACT: Final = 10_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SHORT = 9.95  # seconds that have two digits behind the point


def compact(number: float) -> str:
    """Return a count in at most four digits.

    >>> compact(9766), compact(3_988_214), compact(15_039_022), compact(999_999)
    ('9,766', '3.99 M', '15.0 M', '1.00 M')
    """
    return f"{number:,.0f}" if abs(number) < _EXACT else _scaled(number)


def tick(number: float) -> str:
    """Return a round count as a tick has it.

    >>> tick(100), tick(10_000), tick(2_500_000)
    ('100', '10 k', '2.5 M')
    """
    limit, unit = next((item for item in _UNITS if number >= item[0]), (1, ""))
    return f"{number:,g}" if number < _EXACT else f"{number / limit:g} {unit}"


def num_bytes(number: float) -> str:
    """Return a number of bytes with its unit, of 1,000 each.

    >>> num_bytes(12), num_bytes(12_345), num_bytes(1_234_567_890)
    ('12 B', '12.3 kB', '1.23 GB')
    """
    return f"{number:,.0f} B" if abs(number) < 1000 else f"{_scaled(number)}B"  # noqa: PLR2004


def seconds(time: float) -> str:
    """Return a duration.

    >>> seconds(0.123), seconds(12.3), seconds(200), seconds(7500), seconds(100_000)
    ('0.12 s', '12.3 s', '3 min 20 s', '2 h 05 min', '1 d 3 h')
    """
    if time < _SHORT:
        return f"{time:.2f} s"
    if time < _MINUTE - 0.05:
        return f"{time:.1f} s"
    whole = round(time)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def tick_seconds(time: float) -> str:
    """Return a duration as a tick has it.

    >>> tick_seconds(0), tick_seconds(2.5), tick_seconds(60), tick_seconds(90), tick_seconds(5400)
    ('0 s', '2.5 s', '1 min', '1:30 min', '1:30 h')
    """
    if time < _MINUTE:
        return f"{time:g} s"
    if time >= 2 * _DAY:
        return f"{time / _DAY:g} d"
    unit, name = (_MINUTE, "min") if time < _HOUR else (_HOUR, "h")
    whole, rest = divmod(round(time), unit)
    return f"{whole}:{rest * _MINUTE // unit:02d} {name}" if rest else f"{whole} {name}"


def slice_name(name: str, stage: str) -> str:
    """Return the name of a slice without that of its stage, where both are in one row.

    >>> slice_name("count web/part-00001", "count")
    'web/part-00001'
    """
    return name.removeprefix(f"{stage} ")


def rate(size: float, time: float) -> str:
    """Return bytes in a time as MB/s; a dash where it says nothing.

    >>> rate(25_000_000, 2)
    '12.5 MB/s'
    """
    if not size or time <= 0:
        return "\u2013"
    value = size / 1e6 / time
    digits = 0 if value >= 100 else 1 if value >= 1 else 2  # noqa: PLR2004
    return f"{value:,.{digits}f} MB/s"


def share(part: float, whole: float) -> str:
    """Return a part of a whole in percent; a dash of nothing.

    >>> share(1, 3)
    '33.3%'
    """
    return f"{part / whole:.1%}" if whole else "\u2013"


def ratio(above: float, below: float) -> str:
    """Return a quotient with three digits behind the point; a dash if there is none.

    >>> ratio(10, 4)
    '2.500'
    """
    return f"{above / below:.3f}" if below else "\u2013"


def moment(at: float) -> str:
    """Return a time in seconds since 1970 as a date and a time in UTC.

    >>> moment(1_800_000_000.7)
    '2027-01-15 08:00:00 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(math.floor(at), tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "\u2013"


def _scaled(number: float) -> str:
    size = abs(number)
    limit, unit = next(item for item in _UNITS if size >= item[0] * 0.9995 or item[0] == 1e3)  # noqa: PLR2004
    value = number / limit
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0  # noqa: PLR2004
    return f"{value:,.{digits}f} {unit}"
