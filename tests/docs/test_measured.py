"""The tables of docs/measured.md equal those of the newest records."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def figure_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("about", "figure_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("figure_tables", BENCHMARKS / "figure_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_newest_records(figure_tables):
    text = figure_tables.PAGE.read_text("utf-8")
    assert figure_tables.page(text) == text
    assert len(re.findall(r"<!-- table: \w+ -->\n\| ", text)) >= 8
