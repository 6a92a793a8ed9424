"""Charts with two axes, as values that a template draws: axes with labels, and marks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Final

from nanotok_ray.units import format_count_tick, format_duration_tick

UNITS: Final = 1000
"""Width and height of a picture; the template uses the same value."""

MAX_TICKS: Final = 6
MAX_TIME_TICKS: Final = 8
"""Limits of the labels of an axis."""

_DAY: Final = 86400
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200),
)
"""Seconds between ticks of less than a day, in units that people use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A range of values, and the labels of some of them.

    >>> Axis(low=0, high=10).position(5), Axis(low=1, high=100, is_log=True).position(10)
    (500.0, 500.0)
    """

    low: float
    """The value at the left or at the bottom."""
    high: float
    ticks: Mapping[float, str] = field(default_factory=dict)
    name: str = ""
    is_log: bool = False

    def position(self, value: float) -> float:
        """Return the position of a value in units of the picture; other values are clamped."""
        if self.is_log:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return UNITS * min(max(share, 0.0), 1.0)


def linear_axis(value: float, *, low: float = 0.0, name: str = "", unit: str = "") -> Axis:
    """Return an axis from `low` to a round end that is at least the value.

    >>> list(linear_axis(4.2, unit="%").ticks.values())
    ['0%', '1%', '2%', '3%', '4%', '5%']
    """
    width = value - low
    steps = (item for item in _round_steps(-9, 9) if width <= item * (MAX_TICKS - 1) * (1 + 1e-9))
    step = next(steps, math.inf)
    ticks = [low + step * number for number in range(max(math.ceil(width / step - 1e-9), 1) + 1)]
    return Axis(low=low, high=ticks[-1], ticks={at: f"{at:g}{unit}" for at in ticks}, name=name)


def log_axis(high: float, *, name: str) -> Axis:
    """Return a logarithmic axis from 1, with ticks at 1, 2 and 5 of each decade, or at 1 only.

    >>> list(log_axis(30, name="").ticks.values()), list(log_axis(1e6, name="").ticks.values())
    (['1', '2', '5', '10', '20'], ['1', '100', '10 k', '1 M'])
    """
    numbers = [number for number in _round_steps(0, 15) if number <= high * (1 + 1e-9)]
    if len(numbers) > MAX_TICKS:
        numbers = numbers[::3]
    numbers = numbers[:: -(-len(numbers) // MAX_TICKS)]
    ticks = {number: format_count_tick(number) for number in numbers}
    return Axis(low=1, high=high, ticks=ticks, name=name, is_log=True)


def time_axis(seconds: float, *, name: str) -> Axis:
    """Return an axis of seconds from 0, with ticks at round times.

    >>> list(time_axis(300, name="").ticks.values())
    ['0 s', '1 min', '2 min', '3 min', '4 min', '5 min']
    """
    steps = chain(_round_steps(-4, -1), _TIME_STEPS, count(_DAY, _DAY))
    step = next(item for item in steps if seconds / item < MAX_TIME_TICKS)
    ticks = [step * number for number in range(math.floor(seconds / step) + 1)]
    labels = {at: format_duration_tick(at) for at in ticks}
    return Axis(low=0, high=seconds, ticks=labels, name=name)


def _round_steps(first: int, last: int) -> Iterator[float]:
    """Yield 1, 2 and 5 times the powers of ten from `first` to `last`."""
    return (factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5))


_PHONE: Final = 240
"""Width of a picture in pixels in the narrowest window, for which labels are chosen."""
_ASCII, _OTHER, _LINE, _GAP = 8.0, 12.5, 14, 8
"""Pixels of a character of a label, of its height, and between a dot and its label."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A box, a curve or a dot, in values of the axes."""

    points: Sequence[Point]
    """Two opposite corners of a box, or the points of a line."""
    kind: str
    """The class of the style."""
    title: str = ""
    """The text of a tooltip."""
    label: str = ""
    """A word beside a dot."""
    is_box: bool = False


def box(corner: Point, opposite: Point, *, kind: str, title: str) -> Mark:
    """Return a rectangle from two opposite corners."""
    return Mark(points=[corner, opposite], kind=kind, title=title, is_box=True)


def dot(point: Point, *, kind: str, title: str, label: str = "") -> Mark:
    """Return a dot, which is a line without length."""
    return Mark(points=[point, point], kind=kind, title=title, label=label)


def bar_marks(bars: Mapping[str, Sequence[tuple[float, str]]], *, gap: float) -> Iterator[Mark]:
    """Yield the bars of a histogram from 0, side by side; bar n is between n and n + 1.

    Args:
        bars: the value and the title of each bar, by the class of their color.
        gap: the gap between the bars of adjacent values, as a share of their distance.
    """
    width = (1 - gap) / len(bars)
    for number, (kind, values) in enumerate(bars.items()):
        for index, (value, title) in enumerate(values):
            left = index + gap / 2 + number * width
            yield box((left, 0), (left + width, value), kind=kind, title=title)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with two axes."""

    title: str
    description: str
    """A description of the picture for people who cannot see it."""
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    height: int = 220
    """In pixels."""
    kind: str = ""
    """A class of the style. Labels are left of their dots if it is `rising`."""

    def labeled(self) -> list[Mark]:
        """Return the marks with labels of which none overlaps another; later marks come first."""
        chosen: list[tuple[Mark, tuple[float, float, float]]] = []
        for mark in reversed(self.marks):
            if not mark.label:
                continue
            left, right, bottom = own = self._place(mark)
            if all(
                right <= other[0] or other[1] <= left or abs(bottom - other[2]) >= _LINE
                for _, other in chosen
            ):
                chosen.append((mark, own))
        return [mark for mark, _ in chosen]

    def is_left(self, mark: Mark) -> bool:
        """Return whether the label of a mark is left of its dot."""
        return self.kind == "rising" or self.x.position(mark.points[0][0]) > 0.9 * UNITS

    def _place(self, mark: Mark) -> tuple[float, float, float]:
        """Return left, right and bottom of a label in pixels, in the narrowest window."""
        at, value = mark.points[0]
        x = self.x.position(at) * _PHONE / UNITS
        width = sum(_ASCII if char.isascii() else _OTHER for char in mark.label)
        left = x - _GAP - width if self.is_left(mark) else x + _GAP
        return left, left + width, self.y.position(value) * self.height / UNITS

    def path(self, mark: Mark) -> str:
        """Return the path of a mark."""
        points = [
            (f"{self.x.position(a):.4g}", f"{UNITS - self.y.position(b):.4g}")
            for a, b in mark.points
        ]
        if mark.is_box:
            (left, bottom), (right, top) = points
            return f"M{left} {bottom}V{top}H{right}V{bottom}z"
        return f"M{'L'.join(map(' '.join, points))}"
