"""Slices into calls: large enough to be worth a call, small enough that all CPUs end together.

Guided self-scheduling: each call takes a share of what is left, so calls shrink towards the end.
Pure: takes tasks and a number of CPUs, gives lists of tasks. Does not know Ray, nor what ran.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from nanotok_ray.cluster.task import Task

LEAST_BYTES = 8 << 20
"""A call of less is hardly longer than what Ray does around it."""

MOST_BYTES = 4 << 30
"""About 30 seconds of work for one CPU; what is lost when a node goes away."""

SLICE_BYTES = 64 << 10
"""What a slice weighs at least: opening and writing files takes time however small they are."""

MOST_SLICES = 256
"""In one call: its argument names all their files, and lies in the driver's memory."""

CALLS_PER_CPU = 4
"""Into so many calls a CPU what is left would be cut."""

LEAST_CPUS = 32
"""Calls are cut as if for so many CPUs at least: a cluster that begins with none may grow."""


def groups(tasks: Sequence[Task], *, cpus: int) -> Iterator[list[Task]]:
    """Give the tasks of each call, as they are made, on a cluster that always has that many CPUs.

    >>> from nanotok_ray.cluster.task import Task
    >>> tasks = [Task(name="", work=len, argument="", num_bytes=5 << 20) for _ in range(3)]
    >>> [len(each) for each in groups(tasks, cpus=2)]
    [1, 1, 1]
    >>> tasks = [Task(name="", work=len, argument="", num_bytes=1 << 20) for _ in range(1200)]
    >>> [len(each) for each in groups(tasks, cpus=2)][:6]
    [9, 9, 9, 9, 9, 9]
    """
    waiting = Waiting(tasks)
    while waiting:
        yield [tasks[number] for number in waiting.take(cpus=cpus)]


def num_calls(sizes: Sequence[int], *, cpus: int) -> int:
    """Give how many calls slices of so many bytes become.

    >>> num_calls([5 << 20] * 3, cpus=2), num_calls([], cpus=2)
    (3, 0)
    """
    tasks = [Task(name="", work=len, argument="", num_bytes=size) for size in sizes]
    return sum(1 for _ in groups(tasks, cpus=cpus))


def weight(task: Task) -> int:
    """Give what a task counts for, in bytes."""
    return max(task.num_bytes, SLICE_BYTES)


class Waiting:
    """The tasks that no call has taken yet, by their numbers, the largest first."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Let all tasks wait; those of one size stay in order."""
        self._weights = [weight(task) for task in tasks]
        by_size = sorted(range(len(tasks)), key=self._weights.__getitem__, reverse=True)
        self._numbers = deque(by_size)
        self._left = sum(self._weights)

    def __len__(self) -> int:
        return len(self._numbers)

    def take(self, *, cpus: int) -> list[int]:
        """Take the tasks of the next call: one, and more up to the share of a call.

        Raises:
            IndexError: none is waiting.
        """
        calls = CALLS_PER_CPU * max(cpus, LEAST_CPUS)
        share = max(LEAST_BYTES, min(MOST_BYTES, self._left // calls))
        taken: list[int] = []
        size = 0
        while self._numbers and len(taken) < MOST_SLICES:
            size += self._weights[self._numbers[0]]
            if taken and size > share:
                break
            taken.append(self._numbers.popleft())
        if not taken:
            raise IndexError("no task is waiting")
        self._left -= sum(self._weights[number] for number in taken)
        return taken
