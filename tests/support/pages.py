"""What an HTML page shows: parsed, and in a browser."""

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from tests.support.machine_speed import scaled

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 80
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *("--enable-logging=stderr", "--log-level=0", "--force-device-scale-factor=1"),
)

HARNESS = """<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe><pre></pre>
<script>
addEventListener("load", () => {{
  const inside = document.querySelector("iframe").contentDocument, root = inside.documentElement;
  const scrolls = (own) => own && (/auto|scroll|hidden/.test(getComputedStyle(own).overflowX)
    || scrolls(own.parentElement));
  const wide = [...inside.body.querySelectorAll("*")].filter((own) =>
    own.getBoundingClientRect().right > {width} + 0.5 && !scrolls(own) && !own.closest("svg"));
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 1
    || b.bottom <= a.top + 1;
  const over = [".ys span", ".xs span", ".word"].flatMap((kind) =>
    [...inside.querySelectorAll("figure")].flatMap((figure) => {{
      const labels = [...figure.querySelectorAll(kind)];
      return labels.filter((one, at) => labels.slice(0, at).some((other) =>
        !apart(one.getBoundingClientRect(), other.getBoundingClientRect())));
    }}));
  document.querySelector("pre").textContent = JSON.stringify({{
    width: root.scrollWidth, height: root.scrollHeight,
    over: over.slice(0, 5).map((own) => own.outerHTML.slice(0, 200)),
    wide: wide.slice(0, 5).map((own) => own.outerHTML.slice(0, 200))}});
}});
</script>"""


@dataclass(frozen=True)
class Browser:
    """A browser, and the folder of its files."""

    path: str
    folder: Path

    def run(self, file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        """Open a file."""
        command = [self.path, *FLAGS, f"--user-data-dir={self.folder / 'profile'}", *flags]
        return subprocess.run(
            [*command, file.absolute().as_uri()],
            check=True,
            capture_output=True,
            text=True,
            timeout=scaled(SECONDS),
            env={**os.environ, "HOME": str(self.folder)},
        )

    def dom(self, file: Path) -> tuple[str, list[str]]:
        """Return the document in the browser, and the messages on its console."""
        done = self.run(file, "--dump-dom")
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def picture(self, file: Path, *flags: str, width: int, height: int) -> np.ndarray:
        """Return a picture of shape (height, width, 3) with values from 0 to 255."""
        target = self.folder / "shot.png"
        target.unlink(missing_ok=True)
        self.run(file, f"--window-size={width},{height}", f"--screenshot={target}", *flags)
        return np.rint(matplotlib.image.imread(target)[:, :, :3] * 255).astype(np.uint8)

    def fit(self, page: str, *, width: int) -> dict[str, object]:
        """Lay a page out in a frame of a width.

        Returns:
            Its size, elements that overflow, and labels of charts that cover another one.
        """
        file = self.folder / "harness.html"
        file.write_text(HARNESS.format(width=width, page=html.escape(page)))
        dom, _ = self.dom(file)
        found = re.search(r"<pre>(\{.*\})</pre>", dom, re.DOTALL)
        assert found, dom[-2000:]
        return json.loads(html.unescape(found[1]))


def find_browser(folder: Path) -> Browser:
    """Return a browser, or skip the test if there is none, unless CI requires one."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        reported = f"no browser here: none of {', '.join(NAMES)} is installed"
        if os.environ.get("CI_BROWSER"):
            pytest.fail(f"{reported}, though CI_BROWSER is set")
        pytest.skip(reported)
    return Browser(path, folder)


VOID = {"meta", "input", "br"}


@dataclass
class Page(HTMLParser):
    """The elements of a page, each of which is closed; created from its text."""

    page: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.page)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes.append((tag, values))
        if tag not in VOID:
            self._open.append(tag)
            self.opened(tag, values)

    def opened(self, tag, values):
        """Store what an element with content begins."""
        raise NotImplementedError

    def handle_endtag(self, tag):
        assert self._open[-1:] == [tag], f"{tag} closed in {self._open}"
        self._open.pop()


@dataclass
class ReadPage(Page):
    """The tables, figures and shapes of a page."""

    rows: list[list[str]] = field(default_factory=list)
    """Cells of each row of each table, in order."""
    shapes: list[tuple[str, str]] = field(default_factory=list)
    """Class and title of each box and dot."""
    figures: dict[str, str] = field(default_factory=dict)
    """Values of the head and of lists of names and values."""
    text: str = ""
    """All text except that of the style."""

    def __post_init__(self) -> None:
        self._shape = ""
        self._name = ""
        super().__post_init__()

    def opened(self, tag, values):
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
        elif tag == "path":
            self._shape = values["class"]
        elif tag == "dt":
            self._name = ""

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        if "style" in self._open:
            return
        self.text += data
        if self._open and self._open[-1] == "title" and self._open[-2] == "path":
            self.shapes.append((self._shape, data))
        elif "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data
        elif "dt" in self._open:
            self._name += data
        elif "dd" in self._open:
            self.figures[self._name] = self.figures.get(self._name, "") + data

    def row(self, *starts: str) -> list[str]:
        """Return the one row that begins with these cells."""
        found = [row for row in self.rows if row[: len(starts)] == list(starts)]
        assert len(found) == 1, (starts, found)
        return found[0]


@dataclass
class ShownToken:
    """An element of a token or an image."""

    tag: str
    attributes: dict[str, str]
    text: str = ""

    @property
    def kinds(self) -> set[str]:
        return set(self.attributes["class"].split())


@dataclass
class ShownPage(Page):
    """The tokens, images and turns of a page."""

    tokens: list[ShownToken] = field(default_factory=list)
    """Tokens and images, in order."""
    turns: list[str] = field(default_factory=list)
    """Headings of turns and of their parts, in order."""
    reported: str = ""
    """All text outside tokens."""

    def __post_init__(self) -> None:
        self._token: ShownToken | None = None
        self._depth = 0
        super().__post_init__()

    def opened(self, tag, values):
        if "data-i" in values or "data-g" in values:
            assert self._token is None, "a token in a token"
            self._token, self._depth = ShownToken(tag, values), len(self._open)
            self.tokens.append(self._token)
        elif self._token is not None and "data-u" in values:
            self._token.text += chr(int(values["data-u"].removeprefix("U+"), 16))
        if tag in {"h3", "h4"}:
            self.turns.append("")

    def handle_endtag(self, tag):
        super().handle_endtag(tag)
        if self._token is not None and len(self._open) < self._depth:
            self._token = None

    def handle_data(self, data):
        if self._token is not None:
            self._token.text += data
        elif self._open and self._open[-1] in {"h3", "h4"}:
            self.turns[-1] += data
        elif self._open and self._open[-1] != "style":
            self.reported += data

    @property
    def ids(self) -> list[int]:
        return [int(token.attributes["data-i"]) for token in self.tokens if token.tag != "b"]
