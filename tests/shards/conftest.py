"""A corpus, and a finished output for the tests of a file with copies that tests can damage."""

import pytest

from tests.support.finished_output import copy_of, finished_output
from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path, in_process):
    """Return the folder of a corpus that a test can change; its jobs run in this process."""
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a finished output that is never changed."""
    return finished_output(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def out(finished, tmp_path):
    """Return a copy of the finished output."""
    return copy_of(finished, tmp_path / "out")
