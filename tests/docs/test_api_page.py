"""docs/api.md equals the docstrings, and has every public name."""

import pytest

import nanotok_ray
from tests.support.api_page import PAGE, page

CONSTANTS = {"SPECIAL_TOKENS", "SPLIT_PATTERN", "__version__"}
NANOCHAT = {"get_token_bytes", "get_tokenizer"}
"""On the page for users of nanochat."""


def test_the_page_equals_the_docstrings():
    """`python -m tests.support.api_page` writes the page."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("name", sorted({*nanotok_ray.__all__} - CONSTANTS - NANOCHAT))
def test_every_public_name_is_on_the_page(name):
    text = PAGE.read_text()
    assert f"### nanotok_ray.{name}\n" in text or f"### nanotok_ray.loader.{name}\n" in text
