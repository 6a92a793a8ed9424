"""A run's hold on its output: no lease while it only looks, one while it changes anything.

What was looked at before the lease was taken may have been changed by another run meanwhile; the
number of the lease tells, and then all is looked at again. Does not know what is changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from nanotok_ray.cluster.events import ignore
from nanotok_ray.cluster.lease import Lease, leased
from nanotok_ray.cluster.lease_file import free_number
from nanotok_ray.cluster.stage_times import StageTimes
from nanotok_ray.errors import OutputInUseError
from nanotok_ray.storage import Folder

T = TypeVar("T")

LOOKS = 3


class OutdatedError(Exception):
    """Another run has changed the output since this one looked at it."""


@dataclass(slots=True)
class Hold:
    """What a run knows of the lease of its output; made before anything else is looked at."""

    out: Folder
    command: str
    seen: int | None
    """The number of the lease that nobody held when the output was looked at; None: one held it."""
    lease: Lease | None = None

    @classmethod
    def of(cls, out: Folder, *, command: str) -> "Hold":
        """Look who holds the lease, and take nothing."""
        return cls(out=out, command=command, seen=free_number(out))

    @contextmanager
    def taken(self, watch: StageTimes) -> Iterator[None]:
        """Hold the lease while the block runs; `watch` checks it with every event.

        Raises:
            OutdatedError: another run held it since the output was looked at.
            OutputInUseError: another run holds it.
        """
        if self.lease is not None:
            yield
            return
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
                raise
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


def looking_again(out: str, run: Callable[[], T]) -> T:
    """Run a job, and from the start again where another run came between looking and doing.

    Raises:
        OutputInUseError: that happened again and again.
    """
    for _ in range(LOOKS):
        try:
            return run()
        except OutdatedError:
            continue
    raise OutputInUseError(
        f"other runs changed {out} each of the {LOOKS} times that this one looked at it: run this "
        "command again when they have ended"
    )
