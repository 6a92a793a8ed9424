"""One run over one output folder: what it found there, and the lease under which it changes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from nanotok_ray.errors import LeaseLostError, NanotokError, OutputInUseError
from nanotok_ray.job.events import Note, ignore
from nanotok_ray.job.journaling import StageTimes
from nanotok_ray.job.lease import Lease, free_number, leased, refuse_if_held
from nanotok_ray.storage import Folder

T = TypeVar("T")

MAX_LOCK_ATTEMPTS = 3


class OutdatedError(Exception):
    """Another run has changed the output since this one looked at it."""


@dataclass(slots=True)
class OutputLock:
    """What a run knows of the lease of its output; made before anything else is looked at."""

    out: Folder
    command: str
    seen: int | None
    """The number of the lease that nobody held when the output was looked at; None: one held it."""
    lease: Lease | None = None

    @classmethod
    def of(cls, out: Folder, *, command: str) -> "OutputLock":
        """Read who holds the lease, and take nothing."""
        return cls(out=out, command=command, seen=free_number(out))

    def refuse_if_held(self) -> None:
        """Refuse an output that a live process of this host holds, before anything is started.

        Raises:
            OutputInUseError: it does.
        """
        if self.seen is None:
            refuse_if_held(self.out)

    @contextmanager
    def taken(self, watch: StageTimes, *, on_end: Callable[[], None]) -> Iterator[None]:
        """Hold the lease while the block runs; `watch` checks it with every event.

        Args:
            watch: what is called with the events, and keeps the journal.
            on_end: called under the lease when the journal has its end, of a failed run too; a run
                that is interrupted or terminated has no time for it.

        Raises:
            OutdatedError: another run held it since the output was looked at.
            OutputInUseError: another run holds it.
        """
        with leased(self.out, command=self.command, on_event=watch) as lease:
            if self.seen is None or lease.number != self.seen + 1:
                raise OutdatedError
            self.lease, watch.check = lease, lease.guard
            watch.journaling.leased(lease.number)
            try:
                yield
            except OutdatedError:
                raise
            except BaseException as error:  # said before the lease is let go
                watch.journaling.failed(error)
                if isinstance(error, NanotokError) and not isinstance(error, LeaseLostError):
                    on_end()
                raise
            else:
                watch.journaling.done()
                on_end()
            finally:
                self.lease, watch.check = None, ignore
        self.seen = lease.number

    def check(self) -> None:
        """Ask storage whether this run may still change the output.

        Raises:
            LeaseLostError: it may not.
        """
        assert self.lease is not None, "nothing is changed without the lease"
        self.lease.check()


def retried_when_outdated(out: str, run: Callable[[], T]) -> T:
    """Run a job, and from the start again where another run came between looking and doing.

    Raises:
        OutputInUseError: that happened again and again.
    """
    for _ in range(MAX_LOCK_ATTEMPTS):
        try:
            return run()
        except OutdatedError:
            continue
    raise OutputInUseError(
        f"other runs changed {out} each of the {MAX_LOCK_ATTEMPTS} times that this one looked at "
        "it: run this command again when they have ended"
    )


@dataclass(frozen=True, slots=True)
class Start:
    """How a run was started, beside its recipe, and its notes; a run that starts over keeps it."""

    command: str
    cpus: int | None
    resplit: bool
    watch: StageTimes
    relearn: bool = False
    noted: set[str] = field(default_factory=set)

    def note(self, text: str) -> None:
        """Report a note, once."""
        if text not in self.noted:
            self.noted.add(text)
            self.watch(Note(text=text))
