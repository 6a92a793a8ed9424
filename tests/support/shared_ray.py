"""Shared fixtures of tests with Ray, which takes seconds to start: two sessions, and one head.

A test names the fixture that it needs. The tests of each fixture run one after the other, and the
fixture is closed before the next tests begin, which may start their own Ray.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest


class Shared:
    """A resource that is open from the first test that needs it to the last one."""

    def __init__(self, start: Callable[[], AbstractContextManager[Any]]) -> None:
        self._start = start
        self._open = ExitStack()
        self._values: list[Any] = []

    def open(self) -> Any:
        """Start the resource unless it is open, and return the result of its start."""
        if not self._values:
            self._values.append(self._open.enter_context(self._start()))
        return self._values[0]

    def close(self) -> None:
        """Close the resource if it is open."""
        self._values.clear()
        self._open.close()


def _session() -> AbstractContextManager[None]:
    from nanotok_ray.cluster.session import ray_session  # noqa: PLC0415 - imports Ray

    return ray_session(cpus=2)


def _head() -> AbstractContextManager[Any]:
    from tests.support.ray_head import started_head  # noqa: PLC0415 - as above

    return started_head()


SHARED = {
    "shared_ray": Shared(_session),
    "ray_with_deaths": Shared(_session),
    "shared_head": Shared(_head),
}


@pytest.fixture
def shared_ray() -> None:
    """Use the local Ray of two CPUs in which no test kills a process."""
    SHARED["shared_ray"].open()


@pytest.fixture
def ray_with_deaths() -> None:
    """Use the local Ray of two CPUs in which workers die."""
    SHARED["ray_with_deaths"].open()


@pytest.fixture
def shared_head() -> Any:
    """Return the head node of two CPUs with a job server, as `Head`."""
    return SHARED["shared_head"].open()


def _order_of(item: pytest.Item) -> int:
    """Return the order of a test in a run: without Ray, with shared fixtures, the rest."""
    if item.get_closest_marker("ray") is None:
        return 0
    names = list(SHARED)
    wanted = [names.index(name) for name in _fixtures(item) if name in SHARED]
    return 1 + min(wanted, default=len(names))


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])  # a doctest of a text file has no fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order tests by their shared fixtures."""
    items.sort(key=_order_of)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close fixtures that the next test does not share."""
    wanted = [] if nextitem is None else _fixtures(nextitem)
    for name, shared in SHARED.items():
        if name not in wanted:
            shared.close()


def pytest_sessionfinish() -> None:
    """Close all fixtures, also after an interrupt."""
    for shared in SHARED.values():
        shared.close()
