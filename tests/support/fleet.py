"""A Ray cluster of several nodes on this machine, a driver in its own process, and their deaths.

For tests that kill processes. A gated driver processes a given number of slices and then stops
until its gate is opened, so that processes are killed during the job. Drivers are forked from a
process that has imported their modules.
"""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from tests.support.gated_driver import run_driver
from tests.support.machine_speed import scaled

HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": ceil(scaled(3)),
    "health_check_timeout_ms": 1000,
}
"""The death of a node is detected after 1.5 s instead of 15."""

HEAD = "127.0.0.2"
"""Address of the head, where the driver runs; the other nodes have the next ones."""

POLL_SECONDS = 0.005

WORKING = ("ray::count", "ray::merge", "ray::reduce", "ray::tokenize")
"""Prefixes of the titles of workers with slices."""

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.support.gated_driver"])


class Fleet:
    """A cluster of one CPU per node, whose nodes can be killed."""

    def __init__(self, num_nodes: int) -> None:
        from ray.cluster_utils import Cluster  # noqa: PLC0415 - the environment is set before

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 1,
                "include_dashboard": False,
                "node_ip_address": HEAD,
                "_system_config": HEALTH,
            },
        )
        self._num_nodes = num_nodes
        self._free = list(range(num_nodes + 1, 2, -1))
        self._nodes: list[tuple[int, Any]] = []
        self.address = self._cluster.address
        self.fill_up()

    def fill_up(self) -> None:
        """Add nodes up to the initial number."""
        while len(self._nodes) < self._num_nodes - 1:
            number = self._free.pop()
            node = self._cluster.add_node(num_cpus=1, node_ip_address=f"127.0.0.{number}")
            self._nodes.append((number, node))

    def remove_node(self, rng: random.Random | None = None) -> bool:
        """Kill a node other than the head with its workers; return False if there is none."""
        if not self._nodes:
            return False
        which = rng.randrange(len(self._nodes)) if rng else -1
        number, node = self._nodes.pop(which)
        self._free.append(number)
        self._cluster.remove_node(node, allow_graceful=False)
        return True

    def shut_down(self) -> None:
        """Stop all nodes."""
        self._cluster.shutdown()


@contextmanager
def fleet(num_nodes: int) -> Iterator[Fleet]:
    """Start a cluster."""
    own = Fleet(num_nodes)
    try:
        yield own
    finally:
        own.shut_down()


def kill_a_worker(rng: random.Random | None = None) -> bool:
    """Kill a worker of Ray of this process that has a slice; return False if there is none."""
    workers = [pid for pid in _below(os.getpid()) if _title(pid).startswith(WORKING)]
    if not workers:
        return False
    try:
        os.kill(rng.choice(workers) if rng else workers[0], signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Driver:
    """A job of a recipe in a separate process."""

    def __init__(
        self,
        recipe: Path,
        *,
        address: str,
        log: Path,
        gate: Path | None = None,
        after: int = 0,
        before: Callable[[], None] | None = None,
    ) -> None:
        self.log = log
        waits = (gate and str(gate), after)
        arguments = (str(recipe), address, HEAD, str(log), *waits, before)
        self.process = _SERVER.Process(target=run_driver, args=arguments)
        self.process.start()

    @property
    def is_over(self) -> bool:
        """Whether the driver has ended."""
        return self.process.exitcode is not None

    def until(self, is_so: Callable[[], bool], *, seconds: float = 60) -> None:
        """Wait for a condition while the driver runs."""
        end = time.monotonic() + scaled(seconds)
        while not is_so():
            assert not self.is_over, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Kill the driver."""
        self.process.kill()
        self.process.join()

    def finish(self, *, seconds: float = 120) -> None:
        """Wait for the driver to succeed."""
        assert self.wait(seconds=seconds) == 0, self.log.read_text()

    def wait(self, *, seconds: float = 120) -> int | None:
        """Wait for the end and return the exit code; None: the driver hung and was killed."""
        self.process.join(timeout=scaled(seconds))
        code = self.process.exitcode
        if code is None:
            self.kill()
        return code


def _below(pid: int) -> Iterator[int]:
    for child in map(int, _read(f"/proc/{pid}/task/{pid}/children").split()):
        yield child
        yield from _below(child)


def _title(pid: int) -> str:
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ")


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""
