"""Pictures of tokenizers, as SVG or PNG."""

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.errors import TokenizerError, how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK: Final = "#24231f"
QUIET: Final = "#67645c"
_LINE = "#e2dfd8"
COLORS: Final = ("#3b6fb0", "#d08a2e", "#4f9a62", "#9b5aa6", "#b5504b", "#6b7078")
"""Colors of the tokenizers in order, then repeated."""

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
    marks = [row.bytes_per_character for row in rows.values()]
    group = len(names) * _BAR_INCHES + _GAP_INCHES
    figure = _figure(_WIDTH, 1.6 + group * max(1, len(rows)), title=title, note=note)
    axes = figure.subplots()
    _style(axes, grid="x")
    middles = np.arange(len(rows), dtype=np.float64) * group
    for index, name in enumerate(names):
        at = middles + (index - (len(names) - 1) / 2) * _BAR_INCHES
        values = [row.ratios[index] for row in rows.values()]
        _draw_bars(axes, at, values, color=COLORS[index % len(COLORS)], label=name)
    if marks:
        _draw_marks(axes, middles, marks, height=group - _GAP_INCHES / 2)
    axes.set_yticks(middles, [_plain(row) for row in rows])
    axes.set_ylim(group * (max(1, len(rows)) - 0.5), -group * 0.5)
    axes.set_xlim(0, _maximum([*(row.ratios for row in rows.values()), marks]) * 1.1)
    axes.tick_params(axis="y", labelcolor=INK, labelsize=9)
    axes.set_xlabel("bytes per token", color=QUIET, fontsize=9)
    if len(names) > 1 or marks:
        _legend(figure, axes)
    return figure


def _draw_lengths(axes: "Axes", lengths: Mapping[int, int]) -> None:
    heights = dict.fromkeys(range(1, min(MAX_TOKEN_LENGTH, max(lengths, default=1)) + 1), 0)
    for length, number in lengths.items():
        heights[min(length, MAX_TOKEN_LENGTH)] += number
    _style(axes, grid="y")
    axes.bar(list(heights), list(heights.values()), width=0.82, color=COLORS[0])
    ticks = [height for height in heights if height == 1 or height % 4 == 0]
    has_more = max(lengths, default=1) > MAX_TOKEN_LENGTH
    labels = [
        f"{height}+" if has_more and height == MAX_TOKEN_LENGTH else str(height) for height in ticks
    ]
    axes.set_xticks(ticks, labels)
    axes.set_title("How long tokens are", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("bytes of a token", color=QUIET, fontsize=9)
    axes.set_ylabel("tokens", color=QUIET, fontsize=9)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _draw_usage(axes: "Axes", counts: Sequence[int], *, unused: int) -> None:
    _style(axes, grid="both")
    ranks = np.arange(1, len(counts) + 1)
    axes.set_title("How often tokens are used", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("rank of a token", color=QUIET, fontsize=9)
    axes.set_ylabel("times in the corpus", color=QUIET, fontsize=9)
    axes.set_xscale("log")
    axes.set_yscale("log")
    chosen = _spread(len(counts))
    axes.plot(ranks[chosen], np.asarray(counts)[chosen], color=COLORS[0], linewidth=1.8)
    axes.set_xlim(1, max(10, len(counts) + unused))
    if unused:
        axes.axvspan(max(1, len(counts)), len(counts) + unused, color=COLORS[4], alpha=0.25, lw=0)
    text = f"{len(counts):,} used, {unused:,} not"
    axes.text(0.03, 0.1, text, transform=axes.transAxes, fontsize=9, color=QUIET)


def _spread(count: int) -> NDArray[np.int64]:
    """Return up to `count` indexes for a curve over logarithms: few of the last ones."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    spread = np.geomspace(1, count, num=min(count, 400)).round().astype(np.int64) - 1
    return np.unique(spread)


def _draw_bars(
    axes: "Axes",
    at: NDArray[np.floating[Any]],
    values: Sequence[float | None],
    *,
    color: str,
    label: str,
) -> None:
    widths = [value or 0.0 for value in values]
    axes.barh(at, widths, height=_BAR_INCHES * 0.88, color=color, label=_plain(label))
    for position, value in zip(at, values, strict=True):
        text = "no tokens" if value is None else f"{value:.2f}"
        axes.annotate(
            text,
            (value or 0.0, position),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=QUIET,
        )


def _draw_marks(
    axes: "Axes",
    at: NDArray[np.floating[Any]],
    values: Sequence[float | None],
    *,
    height: float,
) -> None:
    pairs = [(value, position) for value, position in zip(values, at, strict=True) if value]
    where = np.array([value for value, _ in pairs])
    middles = np.array([position for _, position in pairs])
    axes.vlines(
        where, middles - height / 2, middles + height / 2, color=INK, linewidth=1.6, label=_MARK
    )


def _maximum(rows: Sequence[Sequence[float | None]]) -> float:
    return max((value for row in rows for value in row if value), default=1.0)


def _plain(text: str) -> str:
    """Return a name escaped for matplotlib: `$` begins a formula, and a leading `_` hides it."""
    text = text.replace("$", r"\$")
    return f"\u200b{text}" if text.startswith("_") else text


def _legend(figure: "Figure", axes: "Axes") -> None:
    handles, labels = axes.get_legend_handles_labels()
    if len(axes.containers) < len(handles):  # the marks, which come first
        handles, labels = [*handles[1:], handles[0]], [*labels[1:], labels[0]]
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(4, len(labels)),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def _figure(width: float, height: float, *, title: str, note: str) -> "Figure":
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an optional dependency, and slow
        from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415 - as above
    except ImportError as error:
        raise no_matplotlib() from error
    inch = 1 / height
    layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - 0.55 * inch))
    figure = Figure(figsize=(width, height), layout=layout, facecolor="white")
    figure.text(
        0.012, 1 - 0.1 * inch, _plain(title), va="top", fontsize=11.5, weight="bold", color=INK
    )
    figure.text(0.012, 1 - 0.33 * inch, _plain(note), va="top", fontsize=9, color=QUIET)
    return figure


def no_matplotlib() -> TokenizerError:
    """Return the error for a picture that cannot be drawn."""
    return TokenizerError(
        "a picture needs matplotlib, which is not installed: leave --plot out, or "
        f"{how_to_install('plots')}"
    )


def _style(axes: "Axes", *, grid: str) -> None:
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis=grid, color=_LINE, linewidth=0.8)  # type: ignore[arg-type]
    axes.tick_params(colors=QUIET, labelsize=8, length=0, which="both")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)


SUFFIXES: Final = (".svg", ".png")

_DPI = 160
_SETTINGS = {"svg.hashsalt": "nanotok", "svg.fonttype": "none"}


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
    import matplotlib as mpl  # noqa: PLC0415 - an optional dependency, and slow

    file = io.BytesIO()
    settings_of_svg: Any = _SETTINGS  # matplotlib's types list every key
    with mpl.rc_context(settings_of_svg), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the viewer of an SVG has the font
        figure.savefig(file, **settings)
    return file.getvalue()
