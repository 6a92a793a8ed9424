"""The lease of an output folder, which prevents two runs from changing one output."""

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import ClassVar

from nanotok_ray.errors import (
    CorruptOutputError,
    LeaseLostError,
    NanotokError,
    OutputInUseError,
    TransientIOError,
)
from nanotok_ray.formats import MAX_JSON_BYTES, Number, dump, load
from nanotok_ray.job.events import Activity, Event, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.job.holder import Holder
from nanotok_ray.storage import Folder
from nanotok_ray.system import boot_seconds

LEASE_FOLDER = "run/lease"
HELD, RELEASED = "held", "released"
"""The states of a lease."""

_NAME = re.compile(rf"{LEASE_FOLDER}/(\d{{6,18}})\.json")


def lease_name(number: int) -> str:
    """Return the path of a lease, relative to the output folder.

    >>> lease_name(17)
    'run/lease/000017.json'
    """
    return f"{LEASE_FOLDER}/{number:06d}.json"


def lease_numbers(out: Folder) -> list[int]:
    """Return the numbers of all leases in the output folder."""
    matches = map(_NAME.fullmatch, out.list(f"{LEASE_FOLDER}/"))
    return [int(match[1]) for match in matches if match is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredLease:
    """The content of the file of a lease."""

    FORMAT: ClassVar[str] = "nanotok-lease 1"

    state: str
    token: str
    """A random text of the run."""
    command: str
    holder: Holder
    taken: str
    """The time at which the run took the lease, in ISO format, by the holder's clock."""
    renewed: str
    """The time at which it was written last."""
    renewals: Number


@dataclass(frozen=True)
class Seen:
    """The content of the current lease at the time when it was read."""

    number: int
    data: bytes

    @cached_property
    def lease(self) -> StoredLease | None:
        """The content of the file, or None if it cannot be parsed."""
        try:
            return load(StoredLease, self.data, name=lease_name(self.number))
        except CorruptOutputError:
            return None

    @property
    def holder(self) -> Holder:
        """The process that holds or held the lease."""
        return Holder() if self.lease is None else self.lease.holder

    @property
    def is_released(self) -> bool:
        """Whether the holder has released the lease."""
        return self.lease is not None and self.lease.state == RELEASED

    def is_free(self, me: Holder) -> bool:
        """Return whether the lease was released or its holder has certainly ended."""
        return self.is_released or self.holder.is_dead(me)

    def is_held(self, me: Holder, *, now: float) -> bool:
        """Return whether another live process of this host than `me` holds and renews the lease.

        Processes of one host read the same clock. A lease that is no longer renewed can expire, for
        example if its process was stopped or could not release it.
        """
        if self.is_released or self.holder.pid == me.pid or not self.holder.lives(me):
            return False
        return abs(now - self.renewed_at) < EXPIRY_SECONDS

    @property
    def renewed_at(self) -> float:
        """Time of the last write in seconds since 1970, by the holder's clock; 0 if unknown."""
        try:
            return (
                0.0
                if self.lease is None
                else datetime.fromisoformat(self.lease.renewed).timestamp()
            )
        except (ValueError, OverflowError):
            return 0.0

    def describe(self) -> str:
        """Return a text with the command, the process and the time at which it took the lease."""
        holder, lease = self.holder, self.lease
        command, taken = ("a run", "?") if lease is None else (lease.command, lease.taken)
        where = f"host {holder.host or '?'}, process {holder.pid or '?'}"
        job = f", Ray job {holder.ray_job}" if holder.ray_job else ""
        return f"{command} on {where}{job}, since {taken}"


def lease_in_force(out: Folder) -> Seen | None:
    """Return the current lease, which has the highest number, or None if there is no lease."""
    numbers = lease_numbers(out)
    if not numbers:
        return None
    try:
        data = out.read_bytes(lease_name(max(numbers)), limit=MAX_JSON_BYTES)
    except FileNotFoundError:  # a higher number was created in the meantime
        data = b""
    return Seen(max(numbers), data)


def refuse_if_held(out: Folder) -> None:
    """Raise an error if a live process of this host holds the lease of an output.

    Raises:
        OutputInUseError: A live process of this host holds the lease.
    """
    seen = lease_in_force(out)
    if seen is not None and seen.is_held(Holder.this_process(), now=time.time()):
        raise OutputInUseError(_in_use(out, seen))


def free_number(out: Folder) -> int | None:
    """Return the number of the current lease (0: none), or None if it may be held."""
    seen = lease_in_force(out)
    if seen is None:
        return 0
    return seen.number if seen.is_free(Holder.this_process()) else None


EXPIRY_SECONDS = 60.0
"""Seconds without renewal after which another run can take over a lease."""

RENEW_SECONDS = EXPIRY_SECONDS / 4
LOOK_SECONDS = 1.0
RELEASE_SECONDS = 2.0
"""Maximum seconds to wait for the release; `ray job stop` kills the process after 3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """Functions that return the time and wait, which tests replace."""

    now: Callable[[], float] = boot_seconds
    """Seconds that include the time in which the machine is suspended."""
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time
    """Seconds since 1970, comparable between processes of this host."""


class Lease:
    """The right of this run to change an output. It ends when a lease of a higher number exists."""

    def __init__(
        self, out: Folder, number: int, *, command: str, me: Holder, clock: Clock | None = None
    ) -> None:
        """Create the object; `create` writes the lease."""
        self.number = number
        self._out, self._command, self._me, self._clock = out, command, me, clock or Clock()
        self._token = secrets.token_hex(16)
        self._taken = self._time()
        self._renewals = 0
        self._renewed_at = self._clock.now()
        self._is_lost = False
        self._why_lost = ""

    def create(self) -> bool:
        """Write the lease, and return whether it is the current lease now."""
        data = self._data(HELD)
        if not self._out.write_new(lease_name(self.number), data):
            return False
        seen = lease_in_force(self._out)
        if seen is None or (seen.number, seen.data) != (self.number, data):
            if seen is not None and seen.number > self.number:
                self._out.remove(lease_name(self.number))  # this run wrote an old number again
            return False  # other bytes under this number are the lease of another run
        for number in lease_numbers(self._out):
            if number < self.number:
                with suppress(OSError):
                    self._out.remove(lease_name(number))
        return True

    def renew(self) -> None:
        """Write the lease again, so that other runs see that the holder is alive.

        Raises:
            TransientIOError: The storage failed temporarily; try again later.
        """
        if not self._is_ours():
            return
        began = self._clock.now()
        self._renewals += 1
        self._out.write_bytes(lease_name(self.number), self._data(HELD))
        self._renewed_at = began

    def release(self) -> None:
        """Release the lease, so that the next run need not wait."""
        if not self._is_lost:
            self._out.write_bytes(lease_name(self.number), self._data(RELEASED))

    def check(self) -> None:
        """Check in storage that this run still holds the lease.

        Raises:
            LeaseLostError: This run no longer holds the lease.
            TransientIOError: The storage failed temporarily.
        """
        if not self._is_ours():
            raise LeaseLostError(
                f"{self._why_lost}: this run makes no further changes; run the same command again "
                "when the other run has ended"
            )

    def glance(self) -> None:
        """Same as `check`, but read from storage only if no renewal succeeded recently.

        Raises:
            LeaseLostError: This run no longer holds the lease.
        """
        if self._is_lost or self._clock.now() - self._renewed_at >= EXPIRY_SECONDS:
            with suppress(TransientIOError):
                self.check()

    def guard(self, event: Event) -> None:
        """Call `check` at the start and end of each stage, and `glance` at other events."""
        if isinstance(event, StageStarted | StageEnded):
            self.check()
        elif not isinstance(event, Note):
            self.glance()

    def _is_ours(self) -> bool:
        if not self._is_lost:
            seen = lease_in_force(self._out)
            is_ours = seen is not None and seen.number == self.number
            if seen is not None and seen.data:  # otherwise it cannot be read at the moment
                is_ours &= seen.lease is not None and seen.lease.token == self._token
            if not is_ours:
                self._is_lost = True  # permanently, whatever is read later
                self._why_lost = self._loss(seen)
        return not self._is_lost

    def _loss(self, seen: Seen | None) -> str:
        """Return why the lease is lost; `seen` is the lease that is in force instead."""
        url = self._out.url
        if seen is None:
            return f"{self._out.join(lease_name(self.number))}, the lease of this run, was removed"
        if self._clock.now() - self._renewed_at >= EXPIRY_SECONDS:
            return (
                f"another run has taken over {url} because this run did not renew its lease for "
                f"{EXPIRY_SECONDS:.0f} s"
            )
        if seen.number == self.number:
            return (
                f"another run has taken over {url}, which started at the same time "
                f"({seen.describe()}): the store let both create one lease, so it lacks "
                "conditional writes"
            )
        return (
            f"another run has taken over {url} ({seen.describe()}), for which the process of this "
            "run had ended"
        )

    def _data(self, state: str) -> bytes:
        return dump(
            StoredLease(
                state=state,
                token=self._token,
                command=self._command,
                holder=self._me,
                taken=self._taken,
                renewed=self._time(),
                renewals=self._renewals,
            )
        )

    def _time(self) -> str:
        now = datetime.fromtimestamp(self._clock.wall(), timezone.utc)
        return now.isoformat(timespec="seconds")


def take(
    out: Folder,
    *,
    command: str,
    on_event: OnEvent,
    me: Holder | None = None,
    clock: Clock | None = None,
) -> Lease:
    """Acquire the lease of an output, after `EXPIRY_SECONDS` if its holder may still be alive.

    Raises:
        OutputInUseError: Another live run holds the lease. For a process of this host the error
            is raised without waiting.
        TransientIOError: The storage failed temporarily.
    """
    me, clock = me or Holder.this_process(), clock or Clock()
    before: Seen | None = None
    silent = 0.0
    while True:
        seen = lease_in_force(out)
        if seen is not None and not seen.is_free(me):
            if (before is not None and before != seen) or seen.is_held(me, now=clock.wall()):
                raise OutputInUseError(_in_use(out, seen))
            if silent < EXPIRY_SECONDS:
                if before is None:
                    on_event(Note(text=_waiting(out, seen)))
                    on_event(Activity(text="waiting for the lease of another run"))
                before = seen
                silent += _waited(clock)
                continue
        number = 1 if seen is None else seen.number + 1
        lease = Lease(out, number, command=command, me=me, clock=clock)
        if lease.create():
            return lease
        before = Seen(0, b"")  # another live run was faster


@contextmanager
def leased(
    out: Folder,
    *,
    command: str,
    on_event: OnEvent,
    clock: Clock | None = None,
    renew_seconds: float = RENEW_SECONDS,
) -> Iterator[Lease]:
    """Hold the lease of an output while the block runs. A thread renews and finally releases it.

    Args:
        out: The output folder.
        command: The name of the command, for messages.
        on_event: Called with a note before the function waits for another lease to expire.
        clock: Measures the time until the lease of another run expires; None: `Clock()`.
        renew_seconds: The interval in which the thread renews the lease.

    Raises:
        OutputInUseError: Another run holds the lease.
        TransientIOError: The storage failed temporarily.
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
    """Renew the lease until stopped, then release it, in one thread to keep this order."""
    while not stop.wait(renew_seconds):
        with suppress(OSError, NanotokError):
            lease.renew()
    with suppress(OSError, NanotokError):
        lease.release()


def _waited(clock: Clock) -> float:
    """Wait for `LOOK_SECONDS` and return the time, without that of a suspended process."""
    start = clock.now()
    clock.sleep(LOOK_SECONDS)
    return min(clock.now() - start, 2 * LOOK_SECONDS)


def _waiting(out: Folder, seen: Seen) -> str:
    return (
        f"{out.url} is locked by another run ({seen.describe()}). Waiting up to "
        f"{EXPIRY_SECONDS:.0f} s to see whether it is still alive."
    )


def _in_use(out: Folder, seen: Seen) -> str:
    return (
        f"{out.url} is in use by {seen.describe()}: wait until that run has ended, or stop it, and "
        "run this command again; two runs cannot write one output at the same time"
    )
