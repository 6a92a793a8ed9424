"""docs/training.md: its Python blocks run, one after the other, on an output made by hand."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.planned_output import files_of, planned_output

PAGE = Path(__file__).parents[1] / "docs/training.md"
FOLDER = "/data/out"
PACKAGES = ("torch", "jax")
"""Blocks that import one of them run where it is installed."""

BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    rows = [[40, 40], [40, 40], [30]]
    sources = {
        name: files_of(rows, seed=seed, most=90) for seed, name in enumerate(("web", "code"))
    }
    return planned_output(tmp_path_factory.mktemp("training") / "out", sources)


def is_runnable(block):
    needed = [
        name for name in PACKAGES if re.search(rf"^(import|from) {name}\b", block, re.MULTILINE)
    ]
    return all(map(importlib.util.find_spec, needed))


def test_every_block_runs(out, monkeypatch):
    monkeypatch.setenv("NANOTOK_SHARDS", out)
    assert len(BLOCKS) > 3
    names = {"__name__": "docs"}
    for block in filter(is_runnable, BLOCKS):
        code = block.replace(FOLDER, out)
        exec(compile(code, str(PAGE), "exec"), names)


def test_the_page_uses_one_folder():
    assert all(FOLDER in block for block in BLOCKS if "open_shards(" in block)
