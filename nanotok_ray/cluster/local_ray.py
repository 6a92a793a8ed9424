"""The processes of a local Ray: where they listen, and their death, which Ray does not report.

Ray ends the driver within a minute of the death of the head's process, and in some calls after the
death of the node's process. Agents are not looked at, because the node's process ends with them.
"""

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nanotok_ray.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import Popen

NEEDED = ("raylet", "gcs_server")
"""The processes without which a session cannot go on, by Ray's names."""


@contextmanager
def loopback_only() -> "Iterator[None]":
    """Let a Ray that is started in the block listen on the loopback interface only.

    Ray does this by default on macOS and Windows. On Linux it replaces 127.0.0.1 by the address of
    the machine, and then listens on all interfaces.
    """
    from ray._private import ray_constants  # noqa: PLC0415 - the session sets its environment

    former = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = former


_abandoned = threading.Event()
"""Set when the local Ray of this process has died. It has no other one then."""


def check_local_ray() -> None:
    """Check that the processes of the local Ray live that this process has started, if any.

    Raises:
        UnreachableError: One of them has ended.
    """
    if _abandoned.is_set():
        raise UnreachableError("the local Ray of this process has ended; start a new process")
    for name, process in _processes():
        code = process.poll()
        if code is not None:
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise UnreachableError(
                f"the local Ray of this run has ended ({name} of process {process.pid}, {how}); "
                "was it killed, or one of its agents, or was memory short? The same command resumes"
            )


def has_died() -> bool:
    """Return whether the local Ray that this process has started cannot be used any more."""
    return _abandoned.is_set() or any(process.poll() is not None for _, process in _processes())


def abandon() -> None:
    """End what is left of a local Ray that died, without a call of Ray."""
    import ray  # noqa: PLC0415 - the session has set its environment

    _abandoned.set()
    node = ray._private.worker._global_node  # noqa: SLF001 - Ray has no public call
    if node is not None:
        node.kill_all_processes(check_alive=False)


def _processes() -> "Iterator[tuple[str, Popen[bytes]]]":
    ray = sys.modules.get("ray")  # the session imports it
    node = None if ray is None else ray._private.worker._global_node  # noqa: SLF001 - as above
    if node is None:
        return
    for name in NEEDED:
        for info in node.all_processes.get(name, ()):
            yield name, info.process
