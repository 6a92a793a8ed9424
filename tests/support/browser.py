"""A headless Chromium for tests, without a network."""

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
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
  document.querySelector("pre").textContent = JSON.stringify({{
    width: root.scrollWidth, height: root.scrollHeight,
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
        """Lay a page out in a frame of a width; return its size, and overflowing elements."""
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
