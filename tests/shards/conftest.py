"""A corpus for the tests of shards."""

import pytest

from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path, in_process):
    """Return the folder of a corpus that a test can change; its jobs run in this process."""
    write_corpus(tmp_path / "in")
    return tmp_path / "in"
