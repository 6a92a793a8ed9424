"""The tables of docs/measured.md are those of the newest records."""

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


def test_a_peer_that_is_faster_stands_out(figure_tables):
    rows = [
        {"corpus": "a", "timed_bytes": 50_000_000},
        row("nanotok_ray", 50, 0.5),
        row("gigatoken", 100, 1.0),
    ]
    record = {"commit": "abc", "peers": {"gigatoken": "0.10.0"}, "rows": rows}
    assert [*figure_tables.encode([record])][2:] == [
        "| cl100k's pattern, first call | 50 |",
        "| gigatoken 0.10.0 | 100: **0.50 x** |",
    ]


def row(engine, rate, ratio):
    return {
        "corpus": "a",
        "pattern": "cl100k",
        "call": "first",
        "engine": engine,
        "megabytes_per_second": rate,
        "ratio_to_gigatoken": ratio,
    }
