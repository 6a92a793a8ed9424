"""The identity of a process that holds a lease, and whether it has ended."""

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_FIRST_NAMESPACE = "pid:[4026531836]"
"""The PID namespace outside of containers, to which Linux always assigns this number."""

_START_FIELD = 22 - 3
"""Index of the start time among the fields of /proc/PID/stat that follow the name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The identity of a process. Unknown fields are empty."""

    host: str = ""
    machine: str = ""
    """/etc/machine-id"""
    boot: str = ""
    """The boot id of the host, which changes with each boot."""
    pid_namespace: str = ""
    """PIDs are comparable within one namespace only; each container has its own."""
    pid: int = 0
    started: str = ""
    """Start time in ticks since boot, which tells processes with the same PID apart."""
    ray_job: str = ""
    """The job on a Ray cluster, for people."""

    @classmethod
    def this_process(cls) -> "Self":
        """Return the identity of the current process."""
        return cls(
            host=socket.gethostname(),
            machine=_read("/etc/machine-id"),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_link("/proc/self/ns/pid"),
            pid=os.getpid(),
            started=process_state(os.getpid())[1],
            ray_job=_ray_job(),
        )

    def is_dead(self, me: "Self") -> bool:
        """Return whether the process has certainly ended, as seen from the process `me`."""
        return self._has_ended(me) or self._was_before_a_restart(me)

    def lives(self, me: "Self") -> bool:
        """Return whether the process certainly runs, as seen from the process `me`."""
        return self._is_beside(me) and not self._has_ended(me)

    def _is_beside(self, me: "Self") -> bool:
        """Return whether the PID is known and means the same process to `me`."""
        identity = (self.host, self.boot, self.pid_namespace)
        is_same = all(identity) and identity == (me.host, me.boot, me.pid_namespace)
        return is_same and bool(self.pid) and bool(self.started)

    def _has_ended(self, me: "Self") -> bool:
        """Return whether a PID identifies the process also for `me`, and the process has ended."""
        if not self._is_beside(me):
            return False
        state, started = process_state(self.pid)
        return state in {"", "Z", "X"} or started != self.started

    def _was_before_a_restart(self, me: "Self") -> bool:
        """Return whether this host has been restarted since.

        The result is False for containers, because containers of one name can run on several hosts.
        """
        machine = (self.host, self.machine, self.pid_namespace)
        is_same = machine == (me.host, me.machine, _FIRST_NAMESPACE) and all(machine)
        is_outside = me.pid_namespace == _FIRST_NAMESPACE
        return is_same and is_outside and bool(self.boot) and bool(me.boot) and self.boot != me.boot


def process_state(pid: int) -> tuple[str, str]:
    """Return the state and the start time of a process, or empty strings if none exists."""
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (stat[0], stat[_START_FIELD]) if len(stat) > _START_FIELD else ("", "")


def _ray_job() -> str:
    """Return the job of this driver, or an empty string without Ray."""
    ray = sys.modules.get("ray")  # the session imports it, after setting its environment
    try:
        if ray is None or not ray.is_initialized():
            return ""
        job: str = ray.get_runtime_context().get_job_id()
    except Exception:  # Ray does not report it, for any reason
        return ""
    return job


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - the target is no path
    except OSError:
        return ""
