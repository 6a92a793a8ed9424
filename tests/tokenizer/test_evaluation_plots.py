"""Pictures of tokenizers: they show the numbers, are reproducible, and need matplotlib."""

import re
import struct
from xml.etree import ElementTree

import pytest

from nanotok_ray.errors import TokenizerError
from nanotok_ray.report import check_plot, plot_bytes, ratio_figure, vocabulary_figure
from tests.support.missing_packages import uninstall

SVG = "{http://www.w3.org/2000/svg}"


def ratios():
    return ratio_figure(
        {"en & <b>": [4.25, 3.5], "$5 to $6": [None, 1.125], "_한국어": [0.5, 2.0]},
        ["_mine", "its $x$"],
        title="Bytes <per> token",
        note="a note",
        marks=[1.0, None, 3.0],
        marks_name="code points",
    )


def saved(figure, suffix):
    return plot_bytes(figure, name=f"x{suffix}")


def words(svg):
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()).replace("\u200b", "") for each in root.iter(f"{SVG}text")]


def test_bars_have_the_length_of_the_numbers_and_labels():
    figure = ratios()
    (axes,) = figure.axes
    assert [[bar.get_width() for bar in bars] for bars in axes.containers] == [
        [4.25, 0, 0.5],
        [3.5, 1.125, 2.0],
    ]
    reported = words(saved(figure, ".svg"))
    for word in ("Bytes <per> token", "a note", "en & <b>", "$5 to $6", "_한국어", "_mine"):
        assert word in reported
    assert {"4.25", "3.50", "no tokens", "1.12", "its $x$", "code points"} < {*reported}
    assert reported.index("_mine") < reported.index("its $x$") < reported.index("code points")


def test_lengths_and_use_are_drawn():
    lengths = {1: 256, 2: 7, 24: 2, 84: 3}
    figure = vocabulary_figure(lengths, title="t", note="n", counts=[9, 4, 1], unused=5)
    left, right = figure.axes
    heights = [bar.get_height() for bar in left.containers[0]]
    assert heights == [256, 7, *[0] * 21, 5]
    (line,) = right.lines
    assert [line.get_xdata().tolist(), line.get_ydata().tolist()] == [[1, 2, 3], [9, 4, 1]]
    assert {"3 used, 5 not", "24+"} < {*words(saved(figure, ".svg"))}
    assert len(vocabulary_figure(lengths, title="t").axes) == 1
    long = list(range(50_000, 0, -1))
    (line,) = vocabulary_figure({1: 256}, title="t", counts=long).axes[1].lines
    drawn = line.get_ydata().tolist()  # a long curve keeps its ends
    assert (drawn[:3], drawn[-1], len(drawn) <= 400) == (long[:3], 1, True)


def test_the_same_numbers_yield_the_same_bytes_in_the_format_of_the_suffix():
    svg, png = (saved(ratios(), suffix) for suffix in (".svg", ".png"))
    assert (svg, png) == (saved(ratios(), ".svg"), saved(ratios(), ".png"))
    assert not re.search(rb"\b20\d\d-\d\d-\d\d|Matplotlib v", svg + png)
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    width, height = struct.unpack(">II", png[16:24])
    assert (png[:8], width > 1000, height > 300) == (b"\x89PNG\r\n\x1a\n", True, True)


def test_an_empty_table_is_drawn():
    for figure in (
        ratio_figure({}, ["mine"], title="t"),
        ratio_figure({"en": [None]}, ["mine"], title="t", marks=[None], marks_name="m"),
        vocabulary_figure({1: 256}, title="t", counts=[], unused=256),
    ):
        assert saved(figure, ".svg").startswith(b"<?xml")


def test_without_matplotlib_or_a_known_suffix_the_error_names_the_remedy(monkeypatch):
    for name in ("x.jpg", "x.html"):
        with pytest.raises(TokenizerError, match=rf"{name}: its name must end in \.svg, \.png$"):
            check_plot(name)
    check_plot("x.svg")
    uninstall(monkeypatch, "matplotlib")
    with pytest.raises(TokenizerError, match=r"leave --plot out, or pip install '\.\[plots\]'"):
        check_plot("x.svg")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(TokenizerError, match="needs matplotlib"):
        vocabulary_figure({1: 256}, title="t")
