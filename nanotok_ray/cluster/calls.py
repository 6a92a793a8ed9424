"""What the engine needs of a cluster and of a clock: calls that start, end and are cancelled.

`ray_calls.py` gives it on Ray; `benchmarks/simulated_cluster.py` gives it in virtual time. Does not
know what a call is worth, nor what is tried again.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

from nanotok_ray.cluster.call import Step
from nanotok_ray.cluster.outcome import Outcome
from nanotok_ray.cluster.room import Room

Reference = Hashable
"""A call that was started."""


class Calls(Protocol):
    """Calls on a cluster, and its clock. Times are in seconds."""

    def now(self) -> float:
        """Give the time; only differences count."""

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""

    def room(self) -> Room:
        """Give what the cluster has now."""

    def free_cpus(self) -> int:
        """Give the CPUs that nothing runs on, as known a moment ago."""

    def start(
        self, name: str, steps: Sequence[Step], *, room: Room, memory_level: int, spread: bool
    ) -> Reference:
        """Have steps run in a worker, in turn.

        Args:
            name: what a person sees.
            steps: functions and their arguments.
            room: what the memory level is measured by.
            memory_level: as in `attempts.Call`.
            spread: whether it should go where little runs.
        """

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Give calls that ended, at most so many; wait for so many, and so long, at most."""

    def outcomes(self, reference: Reference, number: int) -> Sequence[Outcome]:
        """Give what became of the steps, of which there are so many, of a call that ended.

        Raises:
            SharedFolderError: the worker's node does not see a folder of the job.
        """

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Cancel those that have not ended: interrupt them, or with force kill their workers."""
