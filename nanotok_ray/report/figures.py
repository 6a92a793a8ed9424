"""Pictures of tokenizers, as SVG or PNG."""

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError, how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure


_INK: Final = "#24231f"
_QUIET: Final = "#67645c"
_LINE: Final = "#e2dfd8"
_COLORS: Final = ("#3b6fb0", "#d08a2e", "#4f9a62", "#9b5aa6", "#b5504b", "#6b7078")
"""Colors of the tokenizers in order, then repeated."""

_STYLE: Final[Any] = {  # matplotlib's types list every key
    "axes.axisbelow": True,
    "axes.edgecolor": _LINE,
    "axes.grid": True,
    "axes.labelcolor": _QUIET,
    "axes.labelsize": 9,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "grid.color": _LINE,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.labelcolor": _INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "nanotok",
    "text.color": _QUIET,
    "xtick.color": _QUIET,
    "xtick.labelsize": 8,
    "ytick.color": _QUIET,
    "ytick.labelsize": 8,
    **{f"{axis}tick.{kind}.size": 0 for axis in "xy" for kind in ("major", "minor")},
}

MAX_TOKEN_LENGTH: Final = 24
"""Longer tokens share the last bar."""

_WIDTH = 9.0
_BAR_INCHES, _GAP_INCHES = 0.19, 0.13
_MARK = "one token per code point"


def vocabulary_figure(
    lengths: Mapping[int, int],
    *,
    title: str,
    note: str = "",
    counts: Sequence[int] | None = None,
    unused: int = 0,
) -> "Figure":
    """Draw the number of tokens of each length and, with `counts`, how often each is used.

    Args:
        lengths: the number of tokens of each length in bytes.
        title: the title.
        note: a line below the title.
        counts: the count of each used token, the highest first; None: unknown.
        unused: the number of unused tokens.

    Raises:
        TokenizerError: matplotlib is not installed.
    """
    panels = 1 if counts is None else 2
    with _style():
        figure = _figure(_WIDTH if panels > 1 else _WIDTH * 0.62, 4.0, title=title, note=note)
        axes = figure.subplots(1, panels, squeeze=False)[0]
        _draw_lengths(axes[0], lengths)
        if counts is not None:
            _draw_usage(axes[1], counts, unused=unused)
    return figure


@dataclass(frozen=True, slots=True)
class RatioRow:
    """The bytes per token of some texts; None: no bar or mark."""

    ratios: Sequence[float | None]
    """By tokenizer."""
    bytes_per_character: float | None
    """The ratio of one token per code point, drawn as a line across the bars."""


def ratio_figure(
    rows: Mapping[str, RatioRow], names: Sequence[str], *, title: str, note: str = ""
) -> "Figure":
    """Draw bytes per token as bars: one group per row, with a bar for each tokenizer.

    Args:
        rows: the numbers by name of the texts.
        names: the tokenizers.
        title: the title.
        note: a line below the title.

    Raises:
        TokenizerError: matplotlib is not installed.
    """
    group = len(names) * _BAR_INCHES + _GAP_INCHES
    with _style():
        figure = _figure(_WIDTH, 1.6 + group * max(1, len(rows)), title=title, note=note)
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        middles = np.arange(len(rows)) * group
        handles: list[Any] = []
        for index in range(len(names)):
            ratios = [row.ratios[index] for row in rows.values()]
            at = middles + (index - (len(names) - 1) / 2) * _BAR_INCHES
            handles.append(_draw_bars(axes, at, ratios, color=_COLORS[index % len(_COLORS)]))
        labels = [_plain(name) for name in names]
        if marks := {
            middle: row.bytes_per_character
            for middle, row in zip(middles.tolist(), rows.values(), strict=True)
            if row.bytes_per_character
        }:
            half = (group - _GAP_INCHES / 2) / 2
            bottoms, tops = np.array([*marks]) - half, np.array([*marks]) + half
            handles.append(axes.vlines([*marks.values()], bottoms, tops, color=_INK, lw=1.6))
            labels.append(_MARK)
        axes.set_yticks(middles, [_plain(row) for row in rows], fontsize=9, color=_INK)
        axes.set_ylim(group * (max(1, len(rows)) - 0.5), -group * 0.5)
        ends = [value for row in rows.values() for value in row.ratios if value]
        axes.set_xlim(0, max([*ends, *marks.values()], default=1.0) * 1.1)
        axes.set_xlabel("bytes per token")
        if len(labels) > 1:
            ncols = min(4, len(labels))
            figure.legend(handles, labels, loc="outside lower center", ncols=ncols)
    return figure


def _draw_lengths(axes: "Axes", lengths: Mapping[int, int]) -> None:
    heights = dict.fromkeys(range(1, min(MAX_TOKEN_LENGTH, max(lengths, default=1)) + 1), 0)
    for length, number in lengths.items():
        heights[min(length, MAX_TOKEN_LENGTH)] += number
    axes.grid(visible=False, axis="x")
    axes.bar(list(heights), list(heights.values()), width=0.82, color=_COLORS[0])
    ticks = [height for height in heights if height == 1 or height % 4 == 0]
    has_more = max(lengths, default=1) > MAX_TOKEN_LENGTH
    labels = [
        f"{height}+" if has_more and height == MAX_TOKEN_LENGTH else str(height) for height in ticks
    ]
    axes.set_xticks(ticks, labels)
    axes.set(title="How long tokens are", xlabel="bytes of a token", ylabel="tokens")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _draw_usage(axes: "Axes", counts: Sequence[int], *, unused: int) -> None:
    axes.set(title="How often tokens are used", xscale="log", yscale="log")
    axes.set(xlabel="rank of a token", ylabel="times in the corpus")
    chosen = _spread(len(counts))
    axes.plot(chosen + 1, np.asarray(counts)[chosen], color=_COLORS[0], linewidth=1.8)
    axes.set_xlim(1, max(10, len(counts) + unused))
    if unused:
        axes.axvspan(max(1, len(counts)), len(counts) + unused, color=_COLORS[4], alpha=0.25, lw=0)
    text = f"{len(counts):,} used, {unused:,} not"
    axes.text(0.03, 0.1, text, transform=axes.transAxes, fontsize=9)


def _spread(count: int) -> NDArray[np.int64]:
    """Return up to `count` indexes for a curve over logarithms: few of the last ones."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    spread = np.geomspace(1, count, num=min(count, 400)).round().astype(np.int64) - 1
    return np.unique(spread)


def _draw_bars(
    axes: "Axes", at: NDArray[np.floating[Any]], values: Sequence[float | None], *, color: str
) -> "BarContainer":
    widths = [value or 0.0 for value in values]
    bars = axes.barh(at, widths, height=_BAR_INCHES * 0.88, color=color)
    labels = ["no tokens" if value is None else f"{value:.2f}" for value in values]
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # no line crosses a label
    axes.bar_label(bars, labels, padding=3, fontsize=7.5, bbox=behind)
    return bars


def _plain(text: str) -> str:
    """Return a name escaped for matplotlib: `$` begins a formula, and a leading `_` hides it."""
    text = text.replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


@contextmanager
def _style() -> Iterator[None]:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an optional dependency, and slow
        import matplotlib.figure  # noqa: PLC0415 - as above
    except ImportError as error:
        raise no_matplotlib() from error
    with mpl.rc_context(_STYLE):
        yield


def _figure(width: float, height: float, *, title: str, note: str) -> "Figure":
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415 - as above

    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - 0.55 / height))
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    heading = figure.text(0.012, 1 - 0.1 / height, _plain(title), va="top", fontsize=11.5)
    heading.set(weight="bold", color=_INK)
    figure.text(0.012, 1 - 0.33 / height, _plain(note), va="top", fontsize=9)
    return figure


def no_matplotlib() -> TokenizerError:
    """Return the error for a picture that cannot be drawn."""
    return TokenizerError(
        "a picture needs matplotlib, which is not installed: leave --plot out, or "
        f"{how_to_install('plots')}"
    )


SUFFIXES: Final = (".svg", ".png")

_DPI = 160


def check_plot(name: str) -> None:
    """Refuse a file that cannot be drawn, before anything is measured for it.

    Raises:
        TokenizerError: The suffix is not in `SUFFIXES`, or matplotlib is not installed.
    """
    if PurePosixPath(name).suffix not in SUFFIXES:
        raise TokenizerError(f"--plot {name}: its name must end in {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise no_matplotlib()


def plot_bytes(figure: "Figure", *, name: str) -> bytes:
    """Return the bytes of a figure in the format of the suffix.

    Raises:
        TokenizerError: As for `check_plot`.
    """
    check_plot(name)
    if PurePosixPath(name).suffix == ".png":
        return _saved(figure, format="png", dpi=_DPI, metadata={"Software": None})
    return _saved(figure, format="svg", metadata={"Date": None, "Creator": None})


def _saved(figure: "Figure", **settings: Any) -> bytes:  # noqa: ANN401 - as savefig takes them
    file = io.BytesIO()
    with _style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer of an SVG has the font
        figure.savefig(file, **settings)
    return file.getvalue()
