"""Settings of every test run, and fixtures of several packages."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_timeout
from hypothesis import settings

import tests.support.ray_environment  # noqa: F401 - Ray reads it when it is imported
from tests.support.machine_speed import scaled

settings.register_profile("fast", max_examples=25, deadline=None)
settings.register_profile(
    "check", max_examples=75, deadline=None, derandomize=True, print_blob=True
)
settings.register_profile("long", max_examples=500, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell ignores it for `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl
def pytest_timeout_set_timer(item: pytest.Item, settings: pytest_timeout.Settings) -> object:
    """Extend the time limit of a test on a slow or busy machine."""
    limit = settings._replace(timeout=scaled(settings.timeout))
    return pytest_timeout.pytest_timeout_set_timer(item, limit)


@pytest.fixture(autouse=True, scope="session")
def _copies_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep copies of remote files outside the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NANOTOK_CACHE_DIR", str(tmp_path_factory.mktemp("copies")))
        yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a job's tasks one after the other in this process, without Ray."""
    from tests.support.executors import InProcess, in_place_of_ray  # noqa: PLC0415 - as above

    monkeypatch.setattr("os.fsync", lambda _: None)  # no test simulates a power failure
    with in_place_of_ray(InProcess()):
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished output that is never changed."""
    from tests.support.finished_output import finished_output  # noqa: PLC0415 - slow to import

    return finished_output(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished output, which a test can damage."""
    return Path(shutil.copytree(finished, tmp_path / "out"))
