"""Extras: no page and no message sends anybody to a package index for nanotok_ray."""

import re
from pathlib import Path

import pytest

from nanotok_ray.errors import how_to_install
from nanotok_ray.job.doctor import PACKAGES
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SOURCES = [path for path in ROOT.glob("nanotok_ray/**/*.py") if path.name != "extras.py"]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md")]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=str)
def test_nothing_says_to_install_from_an_index(path):
    text = " ".join(path.read_text("utf-8").replace('"', " ").split())
    assert not re.search(r"pip install ['`]*nanotok_ray\[", text)


def test_extras_that_messages_name_are_there():
    names = re.findall(r"how_to_install\(['\"](\w+)", "".join(map(Path.read_text, SOURCES)))
    assert {*names, *PACKAGES} <= EXTRAS.keys()
    assert names


def test_a_checkout_and_a_wheel_are_named():
    told = how_to_install("gcs")
    assert "pip install '.[gcs]' in a checkout" in told
    assert ".whl[gcs]'" in told
    assert "whl[gcs]'" in (ROOT / "docs/storage.md").read_text()
