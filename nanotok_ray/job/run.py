"""One run over one output folder, and the lease under which the run changes the folder."""

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
    """Another run has changed the output since this run read it."""


@dataclass(slots=True)
class OutputLock:
    """The lease of an output as a run knows it; created before the run reads anything else."""

    out: Folder
    command: str
    seen: int | None
    """The lease number when the output was read; None if another run held the lease then."""
    lease: Lease | None = None

    @classmethod
    def of(cls, out: Folder, *, command: str) -> "OutputLock":
        """Read the state of the lease without acquiring it."""
        return cls(out=out, command=command, seen=free_number(out))

    def refuse_if_held(self) -> None:
        """Raise an error if a live process of this host holds the output, before any work starts.

        Raises:
            OutputInUseError: a live process of this host holds the lease.
        """
        if self.seen is None:
            refuse_if_held(self.out)

    @contextmanager
    def taken(self, watch: StageTimes, *, on_end: Callable[[], None]) -> Iterator[None]:
        """Hold the lease while the block runs; `watch` checks it with every event.

        Args:
            watch: the listener that is called with the events and keeps the journal.
            on_end: called under the lease after the journal has ended, also for a failed run; not
                called for a run that is interrupted or terminated, which has no time for it.

        Raises:
            OutdatedError: another run has held the lease since this run read the output.
            OutputInUseError: another run holds the lease.
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
            except BaseException as error:  # recorded before the release
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
            LeaseLostError: this run no longer holds the lease.
        """
        assert self.lease is not None, "nothing is changed without the lease"
        self.lease.check()


def retried_when_outdated(out: str, run: Callable[[], T]) -> T:
    """Run a job, and start it again if another run changed the output after the job read it.

    Raises:
        OutputInUseError: other runs changed the output in each of `MAX_LOCK_ATTEMPTS` attempts.
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
    """The arguments of a run other than its recipe, and its notes; kept if the run starts over."""

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
