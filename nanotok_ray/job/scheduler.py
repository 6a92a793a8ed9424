"""Batches of slices, the attempts at each slice, and the order in which batches run."""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nanotok_ray.formats import is_local
from nanotok_ray.job.task import (
    AttemptResult,
    Cause,
    Failure,
    Node,
    RetryPolicy,
    Task,
    TaskResult,
)

MIN_BYTES = 8 << 20
"""Below this size, starting a batch takes Ray about as long as running it."""

MAX_BYTES = 4 << 30
"""About 30 seconds of work for one CPU, which is lost if its node fails."""

SLICE_BYTES = 64 << 10
"""Minimum weight of a slice: opening and writing files takes time however small they are."""

REQUEST_BYTES = 8 << 20
"""Weight of a request to a store: what a CPU counts or tokenizes in 100 ms."""

SLICE_REQUESTS = 6
"""Requests of a slice whose results are on a store: 4 to count it, 8 to tokenize it, beside one for
each input file (docs/sizing.md counts them)."""

MAX_SLICES = 256
"""Maximum number of slices in a batch. The driver holds the names of all their files in memory."""

BATCHES_PER_CPU = 4
"""The remaining bytes are divided into this number of batches for each CPU."""

MIN_CPUS = 32
"""Minimum number of CPUs to divide by, because a cluster that starts with none may grow."""


def groups(tasks: Sequence[Task], *, cpus: int) -> Iterator[list[Task]]:
    """Yield the tasks of each batch, in order, for a cluster with a constant number of CPUs.

    >>> from nanotok_ray.job.task import Task
    >>> tasks = [Task(name="", work=len, argument="", num_bytes=5 << 20) for _ in range(3)]
    >>> [len(each) for each in groups(tasks, cpus=2)]
    [1, 1, 1]
    >>> tasks = [Task(name="", work=len, argument="", num_bytes=1 << 20) for _ in range(1200)]
    >>> [len(each) for each in groups(tasks, cpus=2)][:6]
    [9, 9, 9, 9, 9, 9]
    """
    waiting = TaskQueue(tasks)
    while waiting:
        yield [tasks[number] for number in waiting.take(cpus=cpus)]


def num_batches(slices: Iterable[tuple[int, Sequence[str]]], *, cpus: int) -> int:
    """Return the number of batches for slices, each given by its bytes and the URLs of its files.

    >>> num_batches([(5 << 20, ["/in/a"])] * 3, cpus=2), num_batches([], cpus=2)
    (3, 0)
    >>> [num_batches([(5, [url])] * 18, cpus=2) for url in ("/in/a", "s3://bucket/a")]
    [1, 18]
    """
    tasks = [
        Task(name="", work=len, argument="", num_bytes=size, inputs=tuple(urls))
        for size, urls in slices
    ]
    return sum(1 for _ in groups(tasks, cpus=cpus))


def weight(task: Task) -> int:
    """Return the weight of a task: its bytes, and what a CPU does in the time of its requests.

    >>> weight(Task(name="", work=len, argument="", num_bytes=1, inputs=("/in/a",)))
    65536
    >>> weight(Task(name="", work=len, argument="", num_bytes=1, inputs=("s3://b/a", "s3://b/b")))
    16842752
    """
    requests = sum(not is_local(url) for url in task.inputs)
    if any(not is_local(folder.url) for folder in task.shared):
        requests += SLICE_REQUESTS
    return bytes_of(task) + REQUEST_BYTES * requests


def bytes_of(task: Task) -> int:
    """Return the bytes of a task, at least `SLICE_BYTES`."""
    return max(task.num_bytes, SLICE_BYTES)


class TaskQueue:
    """The numbers of the tasks that are in no batch yet, the largest task first."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Add all tasks; tasks of equal size keep their order."""
        self._weights = [weight(task) for task in tasks]
        by_size = sorted(range(len(tasks)), key=self._weights.__getitem__, reverse=True)
        self._numbers = deque(by_size)
        self._left = sum(self._weights)

    def __len__(self) -> int:
        return len(self._numbers)

    def take(self, *, cpus: int) -> list[int]:
        """Remove and return the tasks of the next batch: at least one, and more up to its share.

        Raises:
            IndexError: No task is left.
        """
        batches = BATCHES_PER_CPU * max(cpus, MIN_CPUS)
        share = max(MIN_BYTES, min(MAX_BYTES, self._left // batches))
        taken: list[int] = []
        size = 0
        while self._numbers and len(taken) < MAX_SLICES:
            size += self._weights[self._numbers[0]]
            if taken and size > share:
                break
            taken.append(self._numbers.popleft())
        if not taken:
            raise IndexError("no task is waiting")
        self._left -= sum(self._weights[number] for number in taken)
        return taken


ALONE = frozenset({Cause.WORKER, Cause.MEMORY, Cause.CALL, Cause.SLOW})
"""Causes that do not show which slice of a batch is at fault."""


@dataclass(eq=False, slots=True)
class TaskBatch:
    """The numbers of slices that one worker processes in one call."""

    slices: tuple[int, ...]
    num_bytes: int
    weight: int
    """The sum of the weights of its slices, by which its time is expected."""
    memory_level: int = 0
    """0: request no memory; otherwise request 2 ** level times the share of memory of one CPU."""
    is_speculative: bool = False
    """Whether another attempt at the same slices was already running when it started."""
    other_attempt: "TaskBatch | None" = None
    """The other attempt at the same slices, if one is in flight or has ended the slices."""
    num_speculative: int = 0
    """The number of speculative attempts at the same slices so far."""
    avoid: frozenset[str] = frozenset()
    """The nodes on which a slice of the batch has failed for a reason that may be the node's."""

    def may_have_speculative(self, retry_policy: RetryPolicy) -> bool:
        """Return whether a speculative attempt may start while this attempt runs."""
        return (
            self.other_attempt is None and self.num_speculative < retry_policy.speculative_attempts
        )


@dataclass(slots=True)
class _Account:
    """A slice that was started and has not ended."""

    attempts: int = 0
    in_flight: int = 0
    failures: Counter[Cause] = field(default_factory=Counter)
    memory_level: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    """The nodes on which it failed by `Cause.SETUP`, by id."""


class Scheduler:
    """Decides which slices of a stage run next, and which are tried again."""

    def __init__(self, tasks: Sequence[Task], *, retry_policy: RetryPolicy) -> None:
        """Queue all tasks, the largest first."""
        self._tasks = tasks
        self._retry_policy = retry_policy
        self._fresh = TaskQueue(tasks)
        self._again: list[tuple[float, int, TaskBatch]] = []
        self._numbers = itertools.count()
        self._begun: dict[int, _Account] = {}
        self._jitter = random.Random(0)

    @property
    def is_over(self) -> bool:
        """Whether every slice has ended."""
        return not (self._fresh or self._begun)

    def due(self, now: float) -> float | None:
        """Return the seconds until a batch is due (0: now), or None if no batch is waiting."""
        if self._fresh:
            return 0.0
        return max(0.0, self._again[0][0] - now) if self._again else None

    def take(self, now: float, *, cpus: int) -> TaskBatch | None:
        """Remove and return the next batch, or return None if no batch is due."""
        if self._again and self._again[0][0] <= now:
            batch = heapq.heappop(self._again)[2]
        elif self._fresh:
            batch = self._batch(self._fresh.take(cpus=cpus))
        else:
            return None
        self._begin(batch)
        return batch

    def take_speculative(self, batch: TaskBatch) -> TaskBatch:
        """Return a speculative batch of the unfinished slices of a batch in flight."""
        second = self._batch([number for number in batch.slices if number in self._begun])
        levels = [self._begun[number].memory_level for number in second.slices]
        second.memory_level, second.is_speculative = max(levels), True
        second.avoid = self._avoided(second.slices)
        batch.other_attempt, second.other_attempt = second, batch
        batch.num_speculative = second.num_speculative = batch.num_speculative + 1
        self._begin(second)
        return second

    def is_wanted(self, batch: TaskBatch) -> bool:
        """Return whether any slice of a batch in flight has not ended."""
        return any(number in self._begun for number in batch.slices)

    def ended(
        self,
        batch: TaskBatch,
        outcomes: Sequence[AttemptResult],
        now: float,
        *,
        nodes: Collection[str] = (),
    ) -> list[TaskResult]:
        """Record the results of a batch, and return the slices that ended with it.

        Args:
            batch: The batch.
            outcomes: The result of each of its slices.
            now: The time in seconds.
            nodes: The ids of the nodes that can run slices now.
        """
        ended: list[TaskResult] = []
        again: list[tuple[int, Failure | None]] = []
        for number, outcome in zip(batch.slices, outcomes, strict=True):
            account = self._begun.get(number)
            if account is None:  # the other attempt ended first
                continue
            account.in_flight -= 1
            last = self._judge(number, account, outcome, batch, nodes)
            if last is not None:
                ended.append(last)
            elif account.in_flight == 0:  # otherwise the other attempt may still succeed
                again.append((number, outcome.failure))
        self._try_again(again, now)
        if batch.other_attempt is not None and self.is_wanted(
            batch
        ):  # the other may have another beside it
            batch.other_attempt.other_attempt = None
        return ended

    def _judge(
        self,
        number: int,
        account: _Account,
        outcome: AttemptResult,
        batch: TaskBatch,
        nodes: Collection[str],
    ) -> TaskResult | None:
        """Return the final result of a slice, or None if it is tried again."""
        failure = outcome.failure
        if failure is None:
            return self._end(number, account, outcome, None)
        is_known = failure.cause is Cause.MEMORY and batch.memory_level < account.memory_level
        if failure.cause is Cause.MEMORY and not is_known:
            account.memory_level = batch.memory_level + 1
        if failure.cause in ALONE and len(batch.slices) > 1:
            return None
        if not is_known:  # otherwise the other attempt at this level has reported it
            account.failures[failure.cause] += 1
        if failure.cause is Cause.SETUP and failure.node is not None:
            account.nodes[failure.node.id] = failure.node
        can_move = failure.cause is not Cause.SETUP or set(nodes) - account.nodes.keys()
        limit = self._retry_policy.limits[failure.cause]
        if account.failures[failure.cause] < limit and can_move:
            return None
        if account.in_flight and failure.cause is not Cause.ERROR:
            return None
        return self._end(number, account, outcome, _final_message(failure, account))

    def _end(
        self, number: int, account: _Account, outcome: AttemptResult, error: str | None
    ) -> TaskResult:
        del self._begun[number]
        return TaskResult(
            task=self._tasks[number],
            result=outcome.result,
            seconds=outcome.seconds,
            began=outcome.began,
            worker=outcome.worker,
            error=error,
            raised=None if outcome.failure is None else outcome.failure.raised,
            attempts=account.attempts,
        )

    def _try_again(self, slices: Sequence[tuple[int, Failure | None]], now: float) -> None:
        """Queue slices for their next attempt, each alone if one of them is at fault."""
        together: dict[frozenset[str], list[int]] = {}
        for number, failure in slices:
            if failure is not None and failure.cause in ALONE:
                self._wait([number], now)
            else:
                together.setdefault(self._avoided([number]), []).append(number)
        for numbers in together.values():
            self._wait(numbers, now)

    def _wait(self, numbers: Sequence[int], now: float) -> None:
        """Queue a batch of started slices until their next attempt is due."""
        accounts = [self._begun[number] for number in numbers]
        batch = self._batch(numbers)
        batch.memory_level = max(account.memory_level for account in accounts)
        batch.avoid = self._avoided(numbers)
        failures = max(max(account.failures.values(), default=0) for account in accounts)
        seconds = self._retry_policy.wait(failures, self._jitter) if failures else 0.0
        heapq.heappush(self._again, (now + seconds, next(self._numbers), batch))

    def _avoided(self, numbers: Sequence[int]) -> frozenset[str]:
        return frozenset(node for number in numbers for node in self._begun[number].nodes)

    def _batch(self, numbers: Sequence[int]) -> TaskBatch:
        tasks = [self._tasks[number] for number in numbers]
        return TaskBatch(
            slices=tuple(numbers),
            num_bytes=sum(map(bytes_of, tasks)),
            weight=sum(map(weight, tasks)),
        )

    def _begin(self, batch: TaskBatch) -> None:
        for number in batch.slices:
            account = self._begun.setdefault(number, _Account())
            account.attempts += 1
            account.in_flight += 1


_FINAL = {
    Cause.STORAGE: "{text} (failed {times} times; run the job again when the storage works)",
    Cause.SETUP: (
        "{text} (on {nodes}; compare the mounts, the packages and the credentials of these nodes "
        "with those of the others)"
    ),
    Cause.UNFIT: "{times} nodes in turn could not run it ({text})",
    Cause.WORKER: (
        "its worker process died {times} times with this slice alone ({text}); was it killed for "
        "its memory, or did native code crash? On Ray the worker's log says more. Give workers "
        "more memory or lower limits.slice_bytes, or remove the file"
    ),
    Cause.MEMORY: (
        "its node ran out of memory {times} times, though more was kept free for it each time "
        "({text}); take nodes with more memory or lower limits.slice_bytes"
    ),
    Cause.NODE: "its node went away {times} times ({text}); run the job again",
    Cause.SLOW: (
        "it missed its deadline {times} times ({text}); does its file, its storage or its node "
        "hang? Check, and run the job again; if it only takes that long, raise "
        "limits.slice_deadline or lower limits.slice_bytes"
    ),
}
"""Why a slice failed permanently, and what to do; for other causes, the text says it all."""


def _final_message(failure: Failure, account: _Account) -> str:
    """Return why a slice failed permanently, how often it failed, and what to do."""
    return _FINAL.get(failure.cause, "{text}").format(
        text=failure.text,
        times=account.failures[failure.cause],
        nodes=", ".join(node.name for node in account.nodes.values()),
    )
