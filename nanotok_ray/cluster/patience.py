"""How long and how often: every limit of attempts at slices, and how long to wait between them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from nanotok_ray.cluster.outcome import Cause

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """The limits of one fan-out. Waits are in seconds."""

    storage_failures: int = 6
    """A slice has failed for good at this number of failures of storage that might have passed."""
    worker_deaths: int = 3
    """The same for workers that died while they had this slice alone."""
    memory_failures: int = 3
    """The same for nodes that ran out of memory while a worker had this slice alone."""
    lost_nodes: int = 21
    """The same for nodes that went away: no fault of the slice."""
    missed_deadlines: int = 2
    """The same for attempts that had this slice alone and were given up at their deadline."""
    deadline: float = 3600.0
    """Seconds that a call may run for each started GiB of its slices: a third of a megabyte a
    second, a thirtieth of what a slow CPU does with text that ten to one was compressed."""
    first_wait: float = 1.0
    """Before the second attempt; doubles with each further one."""
    longest_wait: float = 30.0
    overdue_floor: float = 30.0
    """No call is tried a second time beside the first before it has run for this long."""
    overdue_factor: float = 3.0
    """... nor before it has run for so many times what calls of its size take."""
    second_attempts: int = 3
    """How often a call is tried beside itself; more than once if such attempts fail."""
    overtaken_grace: float = 30.0
    """A call that was interrupted, as its twin was first, is killed after so long."""

    @property
    def limits(self) -> Mapping[Cause, int]:
        """How many failures of a cause end a slice."""
        return {
            Cause.ERROR: 1,
            Cause.CALL: 1,
            Cause.STORAGE: self.storage_failures,
            Cause.WORKER: self.worker_deaths,
            Cause.MEMORY: self.memory_failures,
            Cause.NODE: self.lost_nodes,
            Cause.SLOW: self.missed_deadlines,
        }

    def deadline_of(self, num_bytes: int) -> float:
        """Give the seconds that a call of so many bytes may run.

        >>> Patience().deadline_of(1), Patience().deadline_of(20 << 30)
        (3600.0, 72000.0)
        """
        return self.deadline * max(1, -(-num_bytes // GIB))

    def wait(self, failures: int, jitter: random.Random) -> float:
        """Give the seconds to wait after that many failures: at most the nominal, at least half."""
        nominal = self.first_wait * 2.0 ** min(failures - 1, 30)
        return min(self.longest_wait, nominal) * jitter.uniform(0.5, 1.0)
