"""Charts with two axes: scales, ticks, and shapes in SVG."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from nanotok_ray.report.document_page import attribute
from nanotok_ray.report.markup import html_of

UNITS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A mark on an axis."""

    position: float
    """From 0 (left, bottom) to 1."""
    label: object


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A word inside the picture."""

    x: float
    y: float
    text: object
    is_before: bool = False
    """Whether it is to the left of its position, where a rising curve leaves room."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A chart."""

    title: str
    """What it shows, in a few words."""
    description: str
    """What is seen in it, for those who do not see it."""
    shapes: str
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    x_name: str = ""
    y_name: str = ""
    labels: Sequence[Label] = ()
    height: int = 220
    """In pixels."""
    kind: str = ""
    """A class of its own."""
    y_lines: bool = True

    def html(self) -> str:
        """Return the figure."""
        upper = f'<p class="axis">{html_of(self.y_name)}</p>\n' if self.y_name else ""
        lower = f'<p class="axis x">{html_of(self.x_name)}</p>\n' if self.x_name else ""
        return (
            f'<figure class="plot {self.kind}">\n{upper}'
            f'<div class="frame" style="height:{self.height}px">'
            f'<div class="ys" aria-hidden="true">{self._marks(self.y_ticks, "bottom")}</div>'
            f'<div class="area">{self._svg()}{self._words()}</div></div>\n'
            f'<div class="xs" aria-hidden="true">{self._marks(self.x_ticks, "left")}</div>\n'
            f"{lower}</figure>\n"
        )

    def _svg(self) -> str:
        lines = [line(tick.position, 0, tick.position, 1, kind="grid") for tick in self.x_ticks]
        if self.y_lines:
            lines += [
                line(0, tick.position, 1, tick.position, kind="grid") for tick in self.y_ticks
            ]
        return (
            f'<svg viewBox="0 0 {UNITS} {UNITS}" preserveAspectRatio="none" role="img">'
            f"<title>{attribute(self.title)}</title><desc>{attribute(self.description)}</desc>"
            f"{''.join(lines)}{self.shapes}</svg>"
        )

    def _marks(self, ticks: Sequence[Tick], side: str) -> str:
        return "".join(
            f'<span{_edge(tick, side)} style="{side}:{100 * tick.position:.2f}%">'
            f"{html_of(tick.label)}</span>"
            for tick in ticks
        )

    def _words(self) -> str:
        return "".join(
            f'<span class="word{" back" if label.is_before or label.x > 0.9 else ""}" '  # noqa: PLR2004
            f'style="left:{100 * label.x:.2f}%;bottom:{100 * label.y:.2f}%">'
            f"{html_of(label.text)}</span>"
            for label in self.labels
        )


def _edge(tick: Tick, side: str) -> str:
    """Return the class of a tick at an end of the lower axis, whose label must not stand out."""
    if side != "left":
        return ""
    if tick.position < 0.02:  # noqa: PLR2004
        return ' class="first"'
    return ' class="last"' if tick.position > 0.97 else ""  # noqa: PLR2004


def number(position: float) -> str:
    """Return a position in units of the picture.

    >>> number(0.5), number(1 / 3)
    ('500', '333.3')
    """
    return f"{position * UNITS:.1f}".removesuffix(".0")


def rectangle(x: float, y: float, width: float, height: float, *, kind: str, title: str) -> str:
    """Return a box by its left lower corner, with the words that a pointer shows."""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(1 - y - height)}" '
        f'width="{number(width)}" height="{number(height)}">'
        f"<title>{attribute(title)}</title></rect>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> str:
    """Return a line."""
    start, end = f"{number(x1)} {number(1 - y1)}", f"{number(x2)} {number(1 - y2)}"
    return f'<path class="{kind}" d="M{start}L{end}"/>'


def curve(points: Iterable[tuple[float, float]], *, kind: str) -> str:
    """Return a line through points."""
    coordinates = "L".join(f"{number(x)} {number(1 - y)}" for x, y in points)
    return f'<path class="{kind}" d="M{coordinates}"/>' if coordinates else ""


def dot(x: float, y: float, *, title: str, kind: str = "dot") -> str:
    """Return a point, round at any size of the picture."""
    position = f"{number(x)} {number(1 - y)}"
    return f'<path class="{kind}" d="M{position}h0"><title>{attribute(title)}</title></path>'


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

    >>> Scale(low=0, high=10).position(5), Scale(low=1, high=100, is_log=True).position(10)
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

    def position(self, value: float) -> float:
        """Return where a value lies: 0 at `low`, 1 at `high`; values beyond lie at the end."""
        if self.is_log:
            value = math.log(max(value, self.low) / self.low)
            share = value / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def ticks(self, max_ticks: int = 6) -> list[float]:
        """Return round numbers within the scale, in order: `most` at the most, but for times 2."""
        return (
            _log_ticks(self.low, self.high, max_ticks)
            if self.is_log
            else self._linear_ticks(max_ticks)
        )

    def time_ticks(self, max_ticks: int = 8) -> list[float]:
        """Return times at which people count, in seconds; days apart at least where it is long.

        >>> Scale(low=0, high=300).time_ticks()
        [0, 60, 120, 180, 240, 300]
        """
        width = self.high - self.low
        if width < max_ticks:
            return self._linear_ticks(max_ticks)
        days = 86400 * math.ceil(width / 86400 / max_ticks)
        step = next((item for item in _TIME_STEPS if width / item < max_ticks), days)
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]

    def _linear_ticks(self, max_ticks: int) -> list[float]:
        step = round_step((self.high - self.low) / max(max_ticks - 1, 1))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step)))
        return [round(number * step, digits) for number in range(first, last + 1)]


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10 ... (times a power of ten) that is no smaller.

    >>> round_step(0.03), round_step(7)
    (0.05, 10.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(item * power for item in _STEPS if item * power >= least * (1 - 1e-9))


def round_top(value: float, max_ticks: int = 6) -> float:
    """Return a round end for a scale from 0 that holds a value: a tick of it, not below.

    >>> round_top(4.2), round_top(0)
    (5.0, 1.0)
    """
    if value <= 0:
        return 1.0
    step = round_step(value / max(max_ticks - 1, 1))
    return math.ceil(value / step - 1e-9) * step


def _log_ticks(low: float, high: float, max_ticks: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    wide = last - first > _DECADES
    found = [
        factor * 10.0**power
        for power in range(first, last + 1)
        for factor in ((1,) if wide else (1, 2, 5))
    ]
    inside = [match for match in found if low * (1 - 1e-9) <= match <= high * (1 + 1e-9)]
    return inside[:: math.ceil(len(inside) / max_ticks)] if inside else []
