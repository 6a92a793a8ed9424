"""Both pages in a real browser: desktop and phone, light and dark, without requests or errors."""

import numpy as np
import pytest

from nanotok_ray.cli import main
from nanotok_ray.report.page import report_page
from nanotok_ray.storage import Folder
from tests.support.finished_output import finished_output
from tests.support.made_journal import demo_run, write_journal
from tests.support.pages import find_browser

pytestmark = pytest.mark.timeout(180)

BLUE = (0x3F, 0x6F, 0xB0)
"""The first color of charts in light mode."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    return find_browser(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def file(browser, tmp_path_factory):
    """The page of a finished output; the fixture needs the browser, since no other test uses it."""
    root = tmp_path_factory.mktemp("shown")
    out = finished_output(root)
    events = demo_run(60)
    for event in events:
        if "text" in event:
            event["text"] += " without-a-place-to-break" * 40 + "x" * 500
    write_journal(out, events)
    path = root / "report.html"
    path.write_text(report_page(Folder(str(out))))
    return path


@pytest.fixture(scope="module")
def documents(file):
    """The page of documents of the same output."""
    path = file.with_name("documents.html")
    command = ["inspect", str(file.parent / "out"), "--source", "chats", "--doc", "0-9"]
    assert main([*command, "--html", str(path)]) == 0
    return path


def num_colors(picture):
    """Return the number of colors of a picture; sorting numbers is faster than sorting rows."""
    return len(np.unique(picture.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)))


TAGS = {
    "file": ("section", "table", "tr", "path", "svg", "figure", "details", "bdi"),
    "documents": ("section", "table", "h3", "bdi", "span", "label"),
}


@pytest.mark.parametrize("which", TAGS)
def test_a_browser_reads_the_page_without_errors(browser, request, which):
    path = request.getfixturevalue(which)
    dom, complaints = browser.dom(path)
    page = path.read_text()
    assert complaints == []
    for tag in TAGS[which]:
        assert dom.count(f"<{tag}") == page.count(f"<{tag}") > 0, tag


def test_an_injected_script_would_not_run(browser, file):
    script = "<script>document.title = 'it ran'</script>"
    spoilt = file.with_name("spoilt.html")
    spoilt.write_text(file.read_text().replace("<main>", f"<main>{script}"))
    dom, complaints = browser.dom(spoilt)
    assert "<title>it ran</title>" not in dom
    assert any("Content Security Policy" in line for line in complaints)


@pytest.mark.parametrize("width", [360, 400, 768, 1280])
@pytest.mark.parametrize(("which", "height"), [("file", 3000), ("documents", 0)])
def test_a_page_fits_its_window(browser, request, which, height, width):
    fit = browser.fit(request.getfixturevalue(which).read_text(), width=width)
    assert fit["wide"] == []
    assert fit["over"] == []
    assert fit["width"] == width
    assert fit["height"] > height


@pytest.mark.parametrize(
    ("which", "height", "colors"), [("file", 2400, 100), ("documents", 1600, 50)]
)
def test_a_page_is_visible_in_light_and_dark_mode(browser, request, which, height, colors):
    path, dark = request.getfixturevalue(which), "--blink-settings=preferredColorScheme=0"
    seen = [browser.picture(path, *flags, width=1280, height=height) for flags in ((), (dark,))]
    assert seen[0].shape == (height, 1280, 3)
    assert all(num_colors(picture) > colors for picture in seen)
    assert seen[0].mean() > 200
    assert seen[1].mean() < 60
    if which == "file":
        assert (seen[0] == BLUE).all(axis=2).sum() > 5000


def test_every_part_of_the_page_has_visible_content(browser, file):
    height = int(browser.fit(file.read_text(), width=800)["height"])
    seen = browser.picture(file, width=800, height=height)
    for top in range(0, height - 600, 600):
        part = seen[top : top + 600]
        assert num_colors(part) > 20, f"nothing from {top} on"
