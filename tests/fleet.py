"""A Ray cluster of several nodes on this machine, a driver in its own process, and their deaths.

For tests that kill things. A gated driver counts a given number of slices and then stands still
until its gate is opened, so that what is killed is killed in the middle.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
    "health_check_timeout_ms": 1000,
}
"""The death of a node is seen after 1.5 s instead of 15."""

HEAD = "127.0.0.2"
"""Address of the head, where the driver runs; the other nodes follow."""

POLL_SECONDS = 0.02


class Fleet:
    """A cluster of one CPU a node, whose nodes can be removed as if their power were cut."""

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
        self._nodes = [
            self._cluster.add_node(num_cpus=1, node_ip_address=f"127.0.0.{number}")
            for number in range(3, num_nodes + 2)
        ]
        self.address = self._cluster.address

    def remove_node(self) -> None:
        """Kill the node that was added last, with its workers."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

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


def kill_a_worker() -> bool:
    """Kill a worker of Ray below this process that counts; False if there is none."""
    for pid in _below(os.getpid()):
        title = _read(f"/proc/{pid}/cmdline").replace("\0", " ")
        if title.startswith("ray::count"):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


class Driver:
    """The first fan-out and the learner of a recipe in a process of their own."""

    def __init__(
        self, recipe: Path, *, address: str, log: Path, gate: Path | None = None, after: int = 0
    ) -> None:
        self.log = log
        arguments = [str(recipe)] if gate is None else [str(recipe), str(gate), str(after)]
        with log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.gated_driver", address, HEAD, *arguments],
                stdout=sink,
                stderr=subprocess.STDOUT,
            )

    def until(self, is_so: Callable[[], bool], *, seconds: float = 60) -> None:
        """Wait until something is so while the driver runs."""
        end = time.monotonic() + seconds
        while not is_so():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Kill the driver."""
        self.process.kill()
        self.process.wait()

    def finish(self, *, seconds: float = 120) -> None:
        """Wait for a good end."""
        assert self.process.wait(timeout=seconds) == 0, self.log.read_text()


def num_counted(work: Path) -> int:
    """Give how many slices have records."""
    return sum(1 for _ in work.glob("counts/*/*.json"))


def _below(pid: int) -> Iterator[int]:
    for child in map(int, _read(f"/proc/{pid}/task/{pid}/children").split()):
        yield child
        yield from _below(child)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # a process that ended meanwhile
        return ""
