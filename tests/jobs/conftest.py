"""Fixtures of tests of whole jobs."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from nanotok_ray.errors import SourceError
from tests.support.executors import Replacing, in_place_of_ray
from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path: Path, in_process: None) -> Path:
    """Write the small corpus, and return its folder; jobs run in this process."""
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the folder of the output of a job, and of counts beside it: `out-work`."""
    return tmp_path / "out"


@pytest.fixture
def breaking(in_process):
    """Let work fail for slices of these names (stem, number), until fixed."""

    def failing(work, names):
        def run(argument):
            if (argument.slice.stem, argument.slice.number) in names:
                raise SourceError("this one never works")
            return work(argument)

        return run

    with ExitStack() as stack:

        def break_some(works, *names):
            changed = {work: failing(work, names) for work in works}
            stack.enter_context(in_place_of_ray(Replacing(changed)))
            return stack.close

        yield break_some
