"""Who holds a lease: a process of a host, perhaps the driver of a Ray job; and is it dead for sure?

Takes and gives plain values. Death is only claimed where it can be shown; a host that is silent is
not dead. Does not know what is held.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from nanotok_ray.cluster.executor import executor_in_use

_FIRST_NAMESPACE = "pid:[4026531836]"
"""Of processes that are in no container: Linux gives it this number always."""

_START_FIELD = 22 - 3
"""Place of the start time in /proc/PID/stat, after the name, which may hold anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """What is known of a process; what could not be found out is empty."""

    host: str = ""
    machine: str = ""
    """/etc/machine-id"""
    boot: str = ""
    """Another one after each start of the host."""
    pid_namespace: str = ""
    """Numbers of processes mean something in the same one only: containers have their own."""
    pid: int = 0
    started: str = ""
    """In the kernel's ticks since its start: numbers of processes are used again."""
    ray_cluster: str = ""
    ray_job: str = ""

    @classmethod
    def this_process(cls) -> Self:
        """Describe the process that asks."""
        executor = executor_in_use()
        cluster, job = ("", "") if executor is None else executor.driver()
        return cls(
            host=socket.gethostname(),
            machine=_read("/etc/machine-id"),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            pid_namespace=_link("/proc/self/ns/pid"),
            pid=os.getpid(),
            started=_process(os.getpid())[1],
            ray_cluster=cluster,
            ray_job=job,
        )

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_values` gave, by this version or another."""
        default = cls()
        known = {each.name: getattr(default, each.name) for each in fields(cls)}
        own = {name: values.get(name) for name in known}
        return cls(**{n: v for n, v in own.items() if isinstance(v, type(known[n]))})

    def to_values(self) -> dict[str, Any]:
        """Give the fields as JSON-able values."""
        return asdict(self)

    def is_dead(self, me: Self) -> bool:
        """Tell whether the process is gone for sure, as seen from the process `me`."""
        return self._has_ended(me) or self._was_before_a_restart(me) or self._job_is_dead(me)

    def lives(self, me: Self) -> bool:
        """Tell whether the process is there for sure, as seen from the process `me`."""
        return self._is_beside(me) and not self._has_ended(me)

    def _is_beside(self, me: Self) -> bool:
        """Whether both would have the same number for the process, and it is known."""
        place = (self.host, self.boot, self.pid_namespace)
        is_same = all(place) and place == (me.host, me.boot, me.pid_namespace)
        return is_same and bool(self.pid) and bool(self.started)

    def _has_ended(self, me: Self) -> bool:
        """Whether there is no such process where both would have the same number for it."""
        if not self._is_beside(me):
            return False
        state, started = _process(self.pid)
        return state in {"", "Z", "X"} or started != self.started

    def _was_before_a_restart(self, me: Self) -> bool:
        """Whether this very host was started anew since.

        Containers of one name may run on several hosts, so nothing is said of them.
        """
        machine = (self.host, self.machine, self.pid_namespace)
        is_same = machine == (me.host, me.machine, _FIRST_NAMESPACE) and all(machine)
        is_outside = me.pid_namespace == _FIRST_NAMESPACE
        return is_same and is_outside and bool(self.boot) and bool(me.boot) and self.boot != me.boot

    def _job_is_dead(self, me: Self) -> bool:
        """Whether Ray says that the driver has gone, on the cluster that both are of."""
        if not self.ray_job or not self.ray_cluster or self.ray_cluster != me.ray_cluster:
            return False
        executor = executor_in_use()
        if executor is None or self.ray_job == me.ray_job:
            return False
        return executor.is_dead_driver(self.ray_job)


def _process(pid: int) -> tuple[str, str]:
    """Give state and start time of a process; empty if there is none."""
    stat = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (stat[0], stat[_START_FIELD]) if len(stat) > _START_FIELD else ("", "")


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
