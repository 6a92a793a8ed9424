"""docs/api.md and the tables of docs/measured.md equal what their programs write."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import nanotok_ray
from tests.support.api_page import PAGE, page

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NOT_ON_THE_PAGE = {
    *("SPECIAL_TOKENS", "SPLIT_PATTERN", "__version__"),
    *("get_token_bytes", "get_tokenizer"),  # on the page for users of nanochat
}


def test_the_page_of_the_api_equals_the_docstrings_and_has_every_public_name():
    """`python -m tests.support.api_page` writes the page."""
    text = PAGE.read_text()
    assert text == page()
    for name in {*nanotok_ray.__all__} - NOT_ON_THE_PAGE:
        assert f"### nanotok_ray.{name}\n" in text or f"### nanotok_ray.loader.{name}\n" in text


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
