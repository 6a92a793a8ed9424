"""Fixtures of tests of whole jobs."""

from pathlib import Path

import pytest

from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path: Path, in_process: None) -> Path:
    """Write the small corpus, and return its folder; jobs run in this process."""
    write_corpus(tmp_path / "in")
    return tmp_path / "in"
