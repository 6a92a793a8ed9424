"""Charts with two axes: shapes in SVG that stretch with the page, and words in HTML that do not.

Takes shapes with places between 0 and 1 and ticks; gives a figure. Pictures are 1,000 units wide
and high, whatever their size on the screen, and lines keep their width.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nanotok_ray.document_page.markup import attribute
from nanotok_ray.report_page.markup import html_of

UNITS = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A mark on an axis."""

    place: float
    """From 0 (left, bottom) to 1."""
    label: object


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """A word inside the picture."""

    x: float
    y: float
    text: object
    is_before: bool = False
    """It stands to the left of its place, where a rising curve leaves room."""


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
        """Give the figure."""
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
        lines = [line(tick.place, 0, tick.place, 1, kind="grid") for tick in self.x_ticks]
        if self.y_lines:
            lines += [line(0, tick.place, 1, tick.place, kind="grid") for tick in self.y_ticks]
        return (
            f'<svg viewBox="0 0 {UNITS} {UNITS}" preserveAspectRatio="none" role="img">'
            f"<title>{attribute(self.title)}</title><desc>{attribute(self.description)}</desc>"
            f"{''.join(lines)}{self.shapes}</svg>"
        )

    def _marks(self, ticks: Sequence[Tick], side: str) -> str:
        return "".join(
            f'<span{_edge(tick, side)} style="{side}:{100 * tick.place:.2f}%">'
            f"{html_of(tick.label)}</span>"
            for tick in ticks
        )

    def _words(self) -> str:
        return "".join(
            f'<span class="word{" back" if each.is_before or each.x > 0.9 else ""}" '  # noqa: PLR2004
            f'style="left:{100 * each.x:.2f}%;bottom:{100 * each.y:.2f}%">'
            f"{html_of(each.text)}</span>"
            for each in self.labels
        )


def _edge(tick: Tick, side: str) -> str:
    """Give the class of a tick at an end of the lower axis, whose label must not stand out."""
    if side != "left":
        return ""
    return ' class="first"' if tick.place < 0.02 else ' class="last"' if tick.place > 0.97 else ""  # noqa: PLR2004


def number(place: float) -> str:
    """Give a place in units of the picture.

    >>> number(0.5), number(1 / 3)
    ('500', '333.3')
    """
    return f"{place * UNITS:.1f}".removesuffix(".0")


def rectangle(x: float, y: float, width: float, height: float, *, kind: str, title: str) -> str:
    """Give a box by its left lower corner, with the words that a pointer shows."""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(1 - y - height)}" '
        f'width="{number(width)}" height="{number(height)}">'
        f"<title>{attribute(title)}</title></rect>"
    )


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> str:
    """Give a line."""
    start, end = f"{number(x1)} {number(1 - y1)}", f"{number(x2)} {number(1 - y2)}"
    return f'<path class="{kind}" d="M{start}L{end}"/>'


def curve(points: Iterable[tuple[float, float]], *, kind: str) -> str:
    """Give a line through points."""
    places = "L".join(f"{number(x)} {number(1 - y)}" for x, y in points)
    return f'<path class="{kind}" d="M{places}"/>' if places else ""


def dot(x: float, y: float, *, title: str, kind: str = "dot") -> str:
    """Give a point, round at any size of the picture."""
    place = f"{number(x)} {number(1 - y)}"
    return f'<path class="{kind}" d="M{place}h0"><title>{attribute(title)}</title></path>'
