"""docs/api.md equals the docstrings, and has every public name."""

import nanotok_ray
from tests.support.api_page import PAGE, page

CONSTANTS = {"SPECIAL_TOKENS", "SPLIT_PATTERN", "__version__"}
NANOCHAT = {"get_token_bytes", "get_tokenizer"}
"""On the page for users of nanochat."""


def test_the_page_equals_the_docstrings_and_has_every_public_name():
    """`python -m tests.support.api_page` writes the page."""
    text = PAGE.read_text()
    assert text == page()
    for name in {*nanotok_ray.__all__} - CONSTANTS - NANOCHAT:
        assert f"### nanotok_ray.{name}\n" in text or f"### nanotok_ray.loader.{name}\n" in text
