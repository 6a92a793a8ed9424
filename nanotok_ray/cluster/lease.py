"""The lease of an output folder: of two runs of one output, one is kept out.

Files OUT/run/lease/000017.json: the highest number is the lease in force. Who creates the next
number has it, as long as there is no higher one. Numbers only grow, because the highest is never
removed: releasing it rewrites it. Clocks of two hosts are never compared. Knows storage; who is
dead for sure is `lease_holder.py`.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from nanotok_ray.cluster.events import Event, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.cluster.lease_file import (
    LEASE_FORMAT,
    RELEASED,
    Seen,
    lease_in_force,
    lease_name,
    lease_numbers,
)
from nanotok_ray.cluster.lease_holder import Holder
from nanotok_ray.errors import (
    LeaseLostError,
    NanotokError,
    OutputInUseError,
    TransientIOError,
)
from nanotok_ray.formats.manifest import to_json
from nanotok_ray.storage import Folder

EXPIRY_SECONDS = 60.0
"""A lease that was not rewritten for so long may be taken over."""

RENEW_SECONDS = EXPIRY_SECONDS / 4
LOOK_SECONDS = 1.0
RELEASE_SECONDS = 2.0
"""How long leaving waits for the release: `ray job stop` kills after 3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """Seconds that went by, and waiting: tests have their own."""

    now: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    """Goes on while the machine sleeps."""
    sleep: Callable[[float], None] = time.sleep


class Lease:
    """The right to change an output, held by this run until a higher number exists."""

    def __init__(
        self, out: Folder, number: int, *, command: str, me: Holder, clock: Clock | None = None
    ) -> None:
        """Describe it; `take` is what takes it."""
        self.number = number
        self._out, self._command, self._me, self._clock = out, command, me, clock or Clock()
        self._token = secrets.token_hex(16)
        self._taken = _time()
        self._renewals = 0
        self._renewed_at = self._clock.now()
        self._is_lost = False

    def create(self) -> bool:
        """Take the number; tell whether this is the lease in force now."""
        data = self._data("held")
        if not self._out.write_new(lease_name(self.number), data):
            return False
        seen = lease_in_force(self._out)
        if seen is None or (seen.number, seen.data) != (self.number, data):
            # An old number, free again because a higher one is in force.
            self._out.remove(lease_name(self.number))
            return False
        for number in lease_numbers(self._out):
            if number < self.number:
                with suppress(OSError):
                    self._out.remove(lease_name(number))
        return True

    def renew(self) -> None:
        """Rewrite it, so that others see that the holder lives.

        Raises:
            TransientIOError: not now; to be tried again.
        """
        if not self._is_ours():
            return
        began = self._clock.now()
        self._renewals += 1
        self._out.write_whole(lease_name(self.number), self._data("held"))
        self._renewed_at = began

    def release(self) -> None:
        """Leave it to the next run at once."""
        if not self._is_lost:
            self._out.write_whole(lease_name(self.number), self._data(RELEASED))

    def check(self) -> None:
        """Ask storage whether this run still holds the lease.

        Raises:
            LeaseLostError: it does not.
            TransientIOError: storage does not answer for now.
        """
        if not self._is_ours():
            raise LeaseLostError(
                f"another run has taken over {self._out.url}, as this one had not been heard of "
                f"for {EXPIRY_SECONDS:.0f} s: nothing more is changed here; run the same command "
                "again when the other run has ended"
            )

    def glance(self) -> None:
        """Do as `check`, but ask storage only where renewals have failed for long.

        Raises:
            LeaseLostError: this run does not hold the lease any more.
        """
        if self._is_lost or self._clock.now() - self._renewed_at >= EXPIRY_SECONDS:
            with suppress(TransientIOError):
                self.check()

    def guard(self, event: Event) -> None:
        """Check at the begin and end of each stage, and glance in between."""
        if isinstance(event, StageStarted | StageEnded):
            self.check()
        elif not isinstance(event, Note):
            self.glance()

    def _is_ours(self) -> bool:
        if not self._is_lost:
            seen = lease_in_force(self._out)
            if seen is None or seen.number != self.number:
                self._is_lost = True  # and for good, whatever is found later
            elif seen.data and seen.values.get("token") != self._token:
                self._is_lost = True
        return not self._is_lost

    def _data(self, state: str) -> bytes:
        return to_json(
            {
                "format": LEASE_FORMAT,
                "state": state,
                "token": self._token,
                "command": self._command,
                "holder": self._me.to_values(),
                "taken": self._taken,
                "renewed": _time(),
                "renewals": self._renewals,
            }
        )


def take(
    out: Folder,
    *,
    command: str,
    on_event: OnEvent,
    me: Holder | None = None,
    clock: Clock | None = None,
) -> Lease:
    """Take the lease of an output: at once, or after its holder was silent for `EXPIRY_SECONDS`.

    Raises:
        OutputInUseError: another run holds it, and lives.
        TransientIOError: storage failed in a way that may pass.
    """
    me, clock = me or Holder.this_process(), clock or Clock()
    before: Seen | None = None
    silent = 0.0
    while True:
        seen = lease_in_force(out)
        if seen is not None and not seen.is_free(me):
            if before is not None and before != seen:
                raise OutputInUseError(_in_use(out, seen))
            if silent < EXPIRY_SECONDS:
                if before is None:
                    on_event(Note(text=_waiting(out, seen)))
                before = seen
                silent += _waited(clock)
                continue
        number = 1 if seen is None else seen.number + 1
        lease = Lease(out, number, command=command, me=me, clock=clock)
        if lease.create():
            return lease
        before = Seen(0, b"")  # who was faster lives


@contextmanager
def leased(
    out: Folder,
    *,
    command: str,
    on_event: OnEvent,
    clock: Clock | None = None,
    renew_seconds: float = RENEW_SECONDS,
) -> Iterator[Lease]:
    """Hold the lease of an output while the block runs; a thread renews it, and releases it last.

    Args:
        out: the output folder.
        command: what runs, for people.
        on_event: told before this waits for the lease of another run to expire.
        clock: measures the time until the lease of another run expires; None: `Clock()`.
        renew_seconds: how often the thread renews the lease.

    Raises:
        OutputInUseError: another run holds it.
        TransientIOError: storage failed in a way that may pass.
    """
    lease = take(out, command=command, on_event=on_event, clock=clock)
    stop = threading.Event()
    keep = partial(_keep, lease, stop, renew_seconds)
    thread = threading.Thread(target=keep, name="lease", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        stop.set()
        thread.join(RELEASE_SECONDS)


def _keep(lease: Lease, stop: threading.Event, renew_seconds: float) -> None:
    """Renew until told to stop, then release: one thread, so that no renewal comes after it."""
    while not stop.wait(renew_seconds):
        with suppress(OSError, NanotokError):
            lease.renew()
    with suppress(OSError, NanotokError):
        lease.release()


def _waited(clock: Clock) -> float:
    """Wait a moment; time in which this process stood still itself is not counted."""
    start = clock.now()
    clock.sleep(LOOK_SECONDS)
    return min(clock.now() - start, 2 * LOOK_SECONDS)


def _time() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _waiting(out: Folder, seen: Seen) -> str:
    return (
        f"{out.url} is in use by {seen.told()}; looking for up to {EXPIRY_SECONDS:.0f} s whether "
        "that run lives"
    )


def _in_use(out: Folder, seen: Seen) -> str:
    return (
        f"{out.url} is in use by {seen.told()}: wait until that run has ended, or stop it, and run "
        "this command again; two runs cannot write one output at the same time"
    )
