"""A finished output for the tests of a file, and copies that tests can damage."""

import pytest

from tests.support.finished_output import copy_of, finished_output


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a finished output that is never changed."""
    return finished_output(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def out(finished, tmp_path):
    """Return a copy of the finished output."""
    return copy_of(finished, tmp_path / "out")
