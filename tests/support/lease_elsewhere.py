"""A live run on another host that holds the lease of an output, without waits."""

from nanotok_ray.job import lease as leases
from nanotok_ray.job.events import ignore
from nanotok_ray.job.holder import Holder
from nanotok_ray.job.lease import Clock, take

ELSEWHERE = Holder(host="elsewhere", pid=7)


def held_elsewhere(out, monkeypatch, *, command):
    """Acquire the lease of an output as a live run on another host; return the lease."""
    lease = take(out, command=command, on_event=ignore, me=ELSEWHERE)
    renew_while_others_wait(lease, monkeypatch)
    return lease


def renew_while_others_wait(lease, monkeypatch):
    """Renew a lease whenever another run of this process would wait for it.

    Commands and jobs have no parameter for the clock with which they acquire their lease.
    """
    clock = Clock(sleep=lambda _: lease.renew())
    monkeypatch.setattr(leases, "Clock", lambda: clock)
