"""A figure as a file: SVG, PNG, or a page with the SVG in it and the numbers below.

Takes a figure; gives bytes that depend on it alone: no date, no version, no random names. Does not
know what it shows.
"""

import html
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from nanotok_ray.errors import TokenizerError
from nanotok_ray.evaluation.figures import no_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES: Final = (".svg", ".png", ".html")

_DPI = 160
_SETTINGS = {"svg.hashsalt": "nanotok", "svg.fonttype": "none"}
_STYLE = """\
body{margin:0;background:#faf9f7;color:#24231f;font:15px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem}
svg{width:100%;height:auto;background:#fff;border:1px solid #e2dfd8;border-radius:8px}
table{border-collapse:collapse;margin-top:1.5rem;font-size:.9rem;width:100%}
th{font-weight:400;color:#67645c}
th,td{text-align:right;padding:.25rem 0 .25rem .8rem;border-bottom:1px solid #e2dfd8;
font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;padding-left:0;overflow-wrap:anywhere}
"""
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """The table below a picture on a page."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def check_plot(name: str) -> None:
    """Refuse a file that cannot be drawn: before anything is measured for it.

    Raises:
        TokenizerError: Its name ends in none of `SUFFIXES`, or matplotlib is not installed.
    """
    if PurePosixPath(name).suffix not in SUFFIXES:
        raise TokenizerError(f"--plot {name}: its name must end in {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise no_matplotlib()


def plot_bytes(figure: "Figure", *, name: str, title: str, numbers: Numbers) -> bytes:
    """Give the file of a figure, as the suffix of its name asks for.

    Raises:
        TokenizerError: As `check_plot`.
    """
    check_plot(name)
    suffix = PurePosixPath(name).suffix
    if suffix == ".png":
        return _saved(figure, format="png", dpi=_DPI, metadata={"Software": None})
    svg = _saved(figure, format="svg", metadata={"Date": None, "Creator": None})
    return svg if suffix == ".svg" else _page(svg.decode(), title=title, numbers=numbers).encode()


def _saved(figure: "Figure", **settings: Any) -> bytes:  # noqa: ANN401 - as savefig takes them
    import matplotlib as mpl  # noqa: PLC0415 - an optional dependency, and slow

    file = io.BytesIO()
    settings_of_svg: Any = _SETTINGS  # matplotlib's types name every key there is
    with mpl.rc_context(settings_of_svg), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a viewer of the SVG has the font
        figure.savefig(file, **settings)
    return file.getvalue()


def _page(svg: str, *, title: str, numbers: Numbers) -> str:
    picture = svg[svg.index("<svg") :]
    head = "".join(f"<th>{html.escape(each)}</th>" for each in numbers.head)
    rows = "".join(f"<tr>{_cells(row)}</tr>\n" for row in numbers.rows)
    return (
        f"{_HEAD}<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{picture}\n<table>\n<tr>{head}</tr>\n{rows}</table>\n</main>\n</body>\n</html>\n"
    )


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{html.escape(each)}</td>" for each in row)
