"""Scales of charts: from values to places between 0 and 1, and ticks at round numbers.

Takes numbers; knows nothing of what they measure, nor how they are drawn.
"""

import math
from dataclasses import dataclass
from typing import Final

_STEPS: Final = (1, 2, 5, 10)
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400),
)
"""Seconds between ticks that people count in."""

_DECADES: Final = 2
"""A logarithmic scale over fewer has ticks at 1, 2 and 5 of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A range of values on an axis.

    >>> Scale(low=0, high=10).place(5), Scale(low=1, high=100, is_log=True).place(10)
    (0.5, 0.5)
    """

    low: float
    high: float
    """Above `low`, which is above 0 if the scale is logarithmic."""
    is_log: bool = False

    def __post_init__(self) -> None:
        """Refuse a range that no scale has.

        Raises:
            ValueError: it is empty, not finite, or begins at 0 or below on a logarithmic scale.
        """
        is_finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not is_finite or self.low >= self.high or (self.is_log and self.low <= 0):
            raise ValueError(f"no scale goes from {self.low} to {self.high}")

    def place(self, value: float) -> float:
        """Give where a value lies: 0 at `low`, 1 at `high`; values beyond lie at the end."""
        if self.is_log:
            value = math.log(max(value, self.low) / self.low)
            share = value / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def ticks(self, most: int = 6) -> list[float]:
        """Give round numbers within the scale, in order: `most` at the most, but for times 2."""
        return _log_ticks(self.low, self.high, most) if self.is_log else self._linear_ticks(most)

    def time_ticks(self, most: int = 8) -> list[float]:
        """Give times at which people count, in seconds; days apart at least where it is long.

        >>> Scale(low=0, high=300).time_ticks()
        [0, 60, 120, 180, 240, 300]
        """
        width = self.high - self.low
        if width < most:
            return self._linear_ticks(most)
        days = 86400 * math.ceil(width / 86400 / most)
        step = next((each for each in _TIME_STEPS if width / each < most), days)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]

    def _linear_ticks(self, most: int) -> list[float]:
        step = round_step((self.high - self.low) / max(most - 1, 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step)))
        return [round(number * step, digits) for number in range(first, last + 1)]


def round_step(least: float) -> float:
    """Give the smallest of 1, 2, 5, 10 ... (times a power of ten) that is no smaller.

    >>> round_step(0.03), round_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in _STEPS if each * power >= least * (1 - 1e-9))


def round_top(value: float, most: int = 6) -> float:
    """Give a round end for a scale from 0 that holds a value: a tick of it, not below.

    >>> round_top(4.2), round_top(0)
    (5.0, 1.0)
    """
    if value <= 0:
        return 1.0
    step = round_step(value / max(most - 1, 1))
    return math.ceil(value / step - 1e-9) * step


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    wide = last - first > _DECADES
    found = [
        factor * 10.0**power
        for power in range(first, last + 1)
        for factor in ((1,) if wide else (1, 2, 5))
    ]
    inside = [each for each in found if low * (1 - 1e-9) <= each <= high * (1 + 1e-9)]
    return inside[:: math.ceil(len(inside) / most)] if inside else []
