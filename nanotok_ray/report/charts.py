"""Charts with two axes, as values that a template draws: scales, ticks, bars and curves."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from nanotok_ray.units import format_count_tick

UNITS: Final = 1000
"""Width and height of a picture; the template uses the same value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A rectangle; the lengths are in units of the picture, as text."""

    x: str
    y: str
    width: str
    height: str
    kind: str
    title: str
    """The text of a tooltip."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line, or a dot, which is a line without length."""

    path: str
    kind: str
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A mark on an axis."""

    position: float
    """From 0 (left, bottom) to 1."""
    label: str

    @property
    def percent(self) -> str:
        """Return the position in percent."""
        return f"{100 * self.position:.2f}"

    @property
    def edge(self) -> str:
        """Return the class of a tick at an end of the lower axis, whose label stays inside."""
        return "first" if self.position < 0.02 else "last" if self.position > 0.97 else ""  # noqa: PLR2004


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A word inside the picture."""

    left: str
    """Position in percent."""
    bottom: str
    text: str
    is_before: bool
    """Whether the label is to the left of its position, where a rising curve leaves room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartText:
    """The texts of a chart."""

    title: str
    """A short title."""
    description: str
    """A description of the picture for people who cannot see it."""
    x_name: str = ""
    y_name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with two axes."""

    text: ChartText
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    boxes: Sequence[Box] = ()
    curves: Sequence[Line] = ()
    dots: Sequence[Line] = ()
    labels: Sequence[Label] = ()
    height: int = 220
    """In pixels."""
    kind: str = ""
    """A class of the style."""
    has_y_lines: bool = True

    @property
    def lines(self) -> list[Line]:
        """Return the lines of the grid, and the curves."""
        grid = [_line([(tick.position, 0), (tick.position, 1)], "grid") for tick in self.x_ticks]
        if self.has_y_lines:
            grid += [
                _line([(0, tick.position), (1, tick.position)], "grid") for tick in self.y_ticks
            ]
        return [*grid, *self.curves]


def box(corner: tuple[float, float], size: tuple[float, float], *, kind: str, title: str) -> Box:
    """Return a rectangle from its lower left corner, width and height, all from 0 to 1."""
    (x, y), (width, height) = corner, size
    return Box(
        x=_units(x),
        y=_units(1 - y - height),
        width=_units(width),
        height=_units(height),
        kind=kind,
        title=title,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """The bars of one color in a histogram."""

    kind: str
    values: Sequence[float]
    """In percent."""
    titles: Sequence[str]


def histogram(
    text: ChartText, bars: Sequence[Bars], x_ticks: Sequence[Tick], *, gap: float, kind: str = ""
) -> Chart:
    """Return a chart of percentages.

    Args:
        text: the texts of the chart.
        bars: the bars of each color, which are drawn side by side.
        x_ticks: the ticks of the lower axis.
        gap: the gap between the bars of adjacent values, as a share of their distance.
        kind: a class of the style.
    """
    top = round_top(max(max(item.values) for item in bars))
    scale = Scale(low=0, high=top)
    width = (1 - gap) / len(bars)
    return Chart(
        text=text,
        kind=kind,
        boxes=[
            box(
                ((index + gap / 2 + number * width) / len(item.values), 0),
                (width / len(item.values), value / top),
                kind=item.kind,
                title=title,
            )
            for number, item in enumerate(bars)
            for index, (value, title) in enumerate(zip(item.values, item.titles, strict=True))
        ],
        x_ticks=x_ticks,
        y_ticks=[Tick(position=scale.position(v), label=f"{v:g}%") for v in scale.ticks()],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """A marked point of a curve."""

    x: float
    y: float
    title: str
    label: str = ""
    is_before: bool = False
    """Whether the label is to the left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A curve through points, some of which are marked."""

    points: Iterable[tuple[float, float]]
    marked: Sequence[Point]
    x: "Scale"
    y: "Scale"
    kind: str = ""
    """A class of its color."""


def curve_chart(text: ChartText, curve: Curve, y_ticks: Sequence[Tick]) -> Chart:
    """Return the chart of a curve; a label that would be too near to the next one is left out."""
    x, y = curve.x, curve.y
    marked = [(x.position(point.x), y.position(point.y), point) for point in curve.marked]
    return Chart(
        text=text,
        curves=[
            _line(
                [(x.position(a), y.position(b)) for a, b in curve.points],
                f"curve {curve.kind}".strip(),
            )
        ],
        dots=[
            Line(path=f"M{_point(a, b)}h0", kind=f"dot {curve.kind}".strip(), title=point.title)
            for a, b, point in marked
        ],
        labels=_labels(marked),
        x_ticks=[
            Tick(position=x.position(value), label=format_count_tick(value)) for value in x.ticks()
        ],
        y_ticks=y_ticks,
    )


_LABEL_SHARE: Final = 0.08
"""Minimum distance of the labels of a curve, as a share of its width on a phone."""


def _labels(marked: Sequence[tuple[float, float, Point]]) -> list[Label]:
    labels: list[Label] = []
    right = 2.0
    for a, b, point in reversed(marked):
        if not point.label or right - a < _LABEL_SHARE:
            continue
        right = a
        label = Label(
            left=f"{100 * a:.2f}",
            bottom=f"{100 * b:.2f}",
            text=point.label,
            is_before=point.is_before or a > 0.9,  # noqa: PLR2004
        )
        labels.append(label)
    return labels[::-1]


def _line(points: Sequence[tuple[float, float]], kind: str) -> Line:
    return Line(path=f"M{'L'.join(_point(x, y) for x, y in points)}", kind=kind)


def _point(x: float, y: float) -> str:
    return f"{_units(x)} {_units(1 - y)}"


def _units(position: float) -> str:
    """Return a position in units of the picture.

    >>> _units(0.5), _units(1 / 3)
    ('500', '333.3')
    """
    return f"{position * UNITS:.1f}".removesuffix(".0")


MAX_TICKS: Final = 6
_MAX_TIME_TICKS: Final = 8
_STEPS: Final = (1, 2, 5, 10)
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400),
)
"""Seconds between ticks, in units that people use."""

_DECADES: Final = 2
"""A logarithmic scale over fewer decades has ticks at 1, 2 and 5 of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A range of values on an axis.

    >>> Scale(low=0, high=10).position(5), Scale(low=1, high=100, is_log=True).position(10)
    (0.5, 0.5)
    """

    low: float
    high: float
    """Above `low`, which is positive if the scale is logarithmic."""
    is_log: bool = False

    def __post_init__(self) -> None:
        """Refuse an invalid range.

        Raises:
            ValueError: The range is empty or not finite, or begins at 0 or below on a logarithmic
                scale.
        """
        is_finite = math.isfinite(self.low) and math.isfinite(self.high)
        if not is_finite or self.low >= self.high or (self.is_log and self.low <= 0):
            raise ValueError(f"no scale goes from {self.low} to {self.high}")

    def position(self, value: float) -> float:
        """Return the position of a value: 0 at `low`, 1 at `high`; other values are clamped."""
        if self.is_log:
            value = math.log(max(value, self.low) / self.low)
            share = value / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Return at most `MAX_TICKS` round numbers within the scale, in order."""
        return _log_ticks(self.low, self.high) if self.is_log else self._linear_ticks(MAX_TICKS)

    def time_ticks(self) -> list[float]:
        """Return round times in seconds; in a long scale they are at least a day apart.

        >>> Scale(low=0, high=300).time_ticks()
        [0, 60, 120, 180, 240, 300]
        """
        width = self.high - self.low
        if width < _MAX_TIME_TICKS:
            return self._linear_ticks(_MAX_TIME_TICKS)
        days = 86400 * math.ceil(width / 86400 / _MAX_TIME_TICKS)
        step = next((item for item in _TIME_STEPS if width / item < _MAX_TIME_TICKS), days)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]

    def _linear_ticks(self, max_ticks: int) -> list[float]:
        step = round_step((self.high - self.low) / (max_ticks - 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step)))
        rounded = (round(number * step, digits) for number in range(first, last + 1))
        return list(dict.fromkeys(rounded))  # steps can be smaller than the floats are apart


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least `least`.

    >>> round_step(0.03), round_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(item * power for item in _STEPS if item * power >= least * (1 - 1e-9))


def round_top(value: float) -> float:
    """Return a round end for a scale from 0: a tick that is at least the value.

    >>> round_top(4.2), round_top(0)
    (5.0, 1.0)
    """
    if value <= 0:
        return 1.0
    step = round_step(value / (MAX_TICKS - 1))
    return math.ceil(value / step - 1e-9) * step


def _log_ticks(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    wide = last - first > _DECADES
    numbers = [
        factor * 10.0**power
        for power in range(first, last + 1)
        for factor in ((1,) if wide else (1, 2, 5))
    ]
    inside = [match for match in numbers if low * (1 - 1e-9) <= match <= high * (1 + 1e-9)]
    return inside[:: math.ceil(len(inside) / MAX_TICKS)] if inside else []
