"""Runs the tasks of a stage: a bounded window of attempts, and retries that are counted by cause.

One rule is for slow and silent attempts. A task whose latest attempt seems to run for several times
the usual time gets another attempt on an idle CPU, and the first success ends all. An attempt past
its deadline is killed, and counts as failed.
"""

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from nanotok_ray.job.probes import Required, probes_in
from nanotok_ray.job.task import (
    AttemptResult,
    Cause,
    Failure,
    Node,
    RetryPolicy,
    SharedFolder,
    SharedLibrary,
    Task,
    TaskResult,
)
from nanotok_ray.job.worker_pool import Call, ClusterResources, Reference, WorkerPool

WINDOW_PER_CPU = 2
"""Attempts in flight for each CPU: one runs, and one waits to follow it without delay."""

MIN_WINDOW = 1024
"""The minimum number of attempts in flight. An autoscaler sees the work only as waiting calls."""

MAX_ATTEMPTS_AT_ONCE = 3
"""The maximum number of attempts in flight at one task."""

WAIT_SECONDS = 1.0
WAIT_PARTS = 16
"""One wait returns at most this fraction (1 / WAIT_PARTS) of the attempts in flight."""

RESOURCES_SECONDS = 10.0
"""Seconds for which the resources of the cluster are cached."""

MAX_NOTES = 5
MAX_NOTE_CHARS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskListener:
    """The functions that are called while tasks run."""

    on_note: Callable[[str], None] = lambda _: None
    """Called with a text for the first failures that are not permanent, and for other notes to the
    user."""
    on_failure: Callable[[Task, Failure], None] = lambda *_: None
    """Called for each failed attempt that may be repeated."""
    on_running: Callable[[int], None] = lambda _: None
    """Called about every second with the number of attempts that seem to run."""
    on_cluster: Callable[[ClusterResources], None] = lambda _: None
    """Called with the resources of the cluster whenever they were looked up."""


def run_tasks(
    tasks: Iterable[Task],
    *,
    pool_of: Callable[[Sequence[Required]], WorkerPool],
    retry_policy: RetryPolicy | None = None,
    listener: TaskListener | None = None,
) -> Iterator[TaskResult]:
    """Run tasks and yield the result of each exactly once, as it ends.

    The largest tasks start first. Closing the iterator early cancels the others.

    Args:
        tasks: The tasks.
        retry_policy: How often and when a failed attempt is repeated.
        listener: What is called meanwhile.
        pool_of: Returns the workers that run the tasks; they check the probes first.

    Raises:
        NodeError: No node can run the tasks; a SharedFolderError if they do not see a folder.
    """
    known = tuple(tasks)
    shared = {item for task in known for item in task.shared}
    libraries = [item for item in shared if isinstance(item, SharedLibrary)]
    with probes_in(item for item in shared if isinstance(item, SharedFolder)) as probes:
        pool = pool_of([*probes, *libraries])
        runner = _Runner(known, pool, retry_policy or RetryPolicy(), listener or TaskListener())
        try:
            while not runner.is_over:
                runner.fill()
                for reference in runner.wait():
                    yield from runner.finish(reference)
                yield from runner.give_up_late()
        finally:
            runner.cancel_all()


@dataclass(eq=False, slots=True)
class _Attempt:
    """A call of a task in flight."""

    number: int
    """The number of the task."""
    memory_level: int
    """0: no memory is requested; otherwise 2 ** level times the share of memory of one CPU."""
    cpus: int
    reference: Reference


@dataclass(slots=True)
class _Account:
    """A task that was started and has not ended."""

    attempts: int = 0
    in_flight: list[_Attempt] = field(default_factory=list)
    failures: Counter[Cause] = field(default_factory=Counter)
    memory_level: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    """The nodes on which it failed by `Cause.SETUP`, by id."""


class _Runner:
    """The tasks that wait, those that have failed and wait again, and the attempts in flight."""

    def __init__(
        self, tasks: Sequence[Task], pool: WorkerPool, policy: RetryPolicy, listener: TaskListener
    ) -> None:
        self._tasks, self._pool, self._policy, self._listener = tasks, pool, policy, listener
        by_size = sorted(range(len(tasks)), key=lambda number: -tasks[number].num_bytes)
        self._fresh = deque(by_size)
        self._again: list[tuple[float, int, int]] = []
        """When each failed task is due, a number that keeps the order, and the task."""
        self._counter = itertools.count()
        self._jitter = random.Random(0)
        self._accounts: dict[int, _Account] = {}
        self._in_flight: dict[Reference, _Attempt] = {}
        self._times = _RunTimes()
        self._cluster: tuple[float, ClusterResources] | None = None
        self._unfit: set[str] = set()
        self._num_notes = 0

    @property
    def is_over(self) -> bool:
        """Whether every task has ended."""
        return not (self._fresh or self._accounts)

    def fill(self) -> None:
        """Start attempts up to the width of the window, then others beside slow ones."""
        now = self._pool.now()
        while len(self._in_flight) < self._width and self._due(now) == 0:
            number = heapq.heappop(self._again)[2] if self._is_due(now) else self._fresh.popleft()
            self._start(number, now)
            now = self._pool.now()
        if self._due(now) != 0:
            self._start_beside_slow(now)
        self._listener.on_running(self._times.num_running)

    def wait(self) -> list[Reference]:
        """Return attempts that have ended; wait for them up to a second, or until a task is due."""
        seconds = WAIT_SECONDS
        if len(self._in_flight) < self._width:
            due = self._due(self._pool.now())
            seconds = WAIT_SECONDS if due is None else min(WAIT_SECONDS, due)
        if not self._in_flight:
            self._pool.sleep(seconds)
            return []
        number = max(1, len(self._in_flight) // WAIT_PARTS)
        return self._pool.wait(self._in_flight, number, seconds)

    def finish(self, reference: Reference) -> Iterator[TaskResult]:
        """Yield the result of the task if it has ended with an attempt."""
        attempt = self._in_flight.get(reference)
        if attempt is not None:  # otherwise another attempt ended first, in the same wait
            yield from self._settle(attempt, self._pool.result(reference))

    def give_up_late(self) -> Iterator[TaskResult]:
        """Kill the attempts past their deadlines, and yield the tasks that have ended with them.

        Workers do not report when an attempt starts. While fewer CPUs are busy than attempts seem
        to run, some attempts only wait for a CPU, and none is killed.
        """
        now, policy = self._pool.now(), self._policy
        late = [
            (attempt, policy.deadline_of(self._tasks[attempt.number].num_bytes))
            for attempt, seconds in self._times.longer_than(policy.deadline, now)
            if seconds > policy.deadline_of(self._tasks[attempt.number].num_bytes)
        ]
        if not late or self._resources.cpus - self._free_cpus() < self._times.num_busy:
            return
        for attempt, seconds in late:
            if attempt.reference not in self._in_flight:  # the task has ended with another one
                continue
            self._pool.cancel([attempt.reference], force=True)
            text = f"it ran for over {seconds:,g} s, its limit by limits.slice_deadline"
            yield from self._settle(attempt, AttemptResult(failure=Failure(Cause.SLOW, text)))

    def cancel_all(self) -> None:
        """Interrupt the attempts in flight."""
        self._pool.cancel(self._in_flight)

    @property
    def _cluster_resources(self) -> ClusterResources:
        """The resources of the cluster, at most `RESOURCES_SECONDS` old."""
        now = self._pool.now()
        if self._cluster is None or now - self._cluster[0] > RESOURCES_SECONDS:
            self._cluster = now, self._pool.resources()
            self._listener.on_cluster(self._cluster[1])
        return self._cluster[1]

    @property
    def _resources(self) -> ClusterResources:
        """The resources of the cluster without its unfit nodes."""
        return self._cluster_resources.without(self._unfit)

    @property
    def _width(self) -> int:
        """The maximum number of attempts in flight."""
        return max(WINDOW_PER_CPU * self._resources.cpus, MIN_WINDOW)

    def _free_cpus(self) -> int:
        """Return the idle CPUs of fit nodes, where unfit nodes are idle."""
        unfit = self._cluster_resources.cpus - self._resources.cpus
        return max(0, self._pool.free_cpus() - unfit)

    def _is_due(self, now: float) -> bool:
        """Return whether a failed task is due."""
        return bool(self._again) and self._again[0][0] <= now

    def _due(self, now: float) -> float | None:
        """Return the seconds until a task is due (0: now), or None if no task is waiting."""
        if self._fresh:
            return 0.0
        return max(0.0, self._again[0][0] - now) if self._again else None

    def _start(self, number: int, now: float, *, spread: bool = False) -> None:
        """Start an attempt at a task."""
        task, resources = self._tasks[number], self._resources
        account = self._accounts.setdefault(number, _Account())
        request = resources.request(account.memory_level)
        call = Call(
            name=task.name,
            work=task.work,
            argument=task.argument,
            request=request,
            spread=spread,
            avoid=frozenset(self._unfit | account.nodes.keys()),
        )
        reference = self._pool.submit(call)
        attempt = _Attempt(number, account.memory_level, request.cpus, reference)
        account.attempts += 1
        account.in_flight.append(attempt)
        self._in_flight[reference] = attempt
        self._times.add(attempt, now, cpus=resources.cpus)

    def _start_beside_slow(self, now: float) -> None:
        """Start other attempts at the tasks that run longest, while CPUs are idle."""
        candidates = [
            (attempt, seconds)
            for attempt, seconds in self._times.longer_than(self._policy.overdue_floor, now)
            if self._may_have_another(attempt)
        ]
        if not candidates:
            return
        overdue = self._policy.overdue_factor * self._times.seconds_per_byte
        slow = [
            attempt.number
            for attempt, seconds in candidates
            if seconds > overdue * _weight(self._tasks[attempt.number])
        ]
        for number in slow[: self._free_cpus()]:
            self._start(number, now, spread=True)
            self._note(f"{self._tasks[number].name} takes long and gets another attempt")

    def _may_have_another(self, attempt: _Attempt) -> bool:
        """Return whether an attempt is the latest at its task, and another may run beside it."""
        in_flight = self._accounts[attempt.number].in_flight
        return in_flight[-1] is attempt and len(in_flight) < MAX_ATTEMPTS_AT_ONCE

    def _settle(self, attempt: _Attempt, result: AttemptResult) -> Iterator[TaskResult]:
        """Record the result of an attempt; yield that of its task if the task has ended."""
        self._avoid_unfit(result)
        if result.failure is not None and len(self._cluster_resources.nodes) <= 1:
            result = replace(result, failure=_not_of_a_node(result.failure))
        now, failure = self._pool.now(), result.failure
        account, task = self._accounts[attempt.number], self._tasks[attempt.number]
        self._remove(attempt, now)
        if failure is None:
            self._times.observe(result.seconds / _weight(task))
            yield self._end(attempt.number, result, None)
            return
        if failure.cause is not Cause.ERROR:
            self._report(task, failure)
        is_final = self._count(account, attempt, failure)
        if is_final:
            yield self._end(attempt.number, result, _final_message(failure, account))
        elif not account.in_flight:  # otherwise another attempt may still succeed
            failures = max(account.failures.values(), default=0)
            seconds = self._policy.wait(failures, self._jitter) if failures else 0.0
            heapq.heappush(self._again, (now + seconds, next(self._counter), attempt.number))

    def _count(self, account: _Account, attempt: _Attempt, failure: Failure) -> bool:
        """Count a failure, and return whether it is permanent."""
        if failure.cause is Cause.MEMORY:
            if attempt.memory_level < account.memory_level:  # as another attempt has reported
                return False
            account.memory_level += 1
        account.failures[failure.cause] += 1
        can_move = True
        if failure.cause is Cause.SETUP:
            if failure.node is not None:
                account.nodes[failure.node.id] = failure.node
            can_move = bool(self._resources.nodes.keys() - account.nodes.keys())
        return account.failures[failure.cause] >= self._policy.limits[failure.cause] or not can_move

    def _end(self, number: int, result: AttemptResult, error: str | None) -> TaskResult:
        """End a task, and kill its other attempts, which could hang and occupy CPUs forever."""
        account = self._accounts.pop(number)
        for other in account.in_flight:
            self._pool.cancel([other.reference], force=True)
            del self._in_flight[other.reference]
            self._times.remove(other, self._pool.now(), cpus=self._resources.cpus)
        return TaskResult(
            task=self._tasks[number],
            result=result.result,
            seconds=result.seconds,
            began=result.began,
            worker=result.worker,
            error=error,
            raised=None if result.failure is None else result.failure.raised,
            attempts=account.attempts,
        )

    def _remove(self, attempt: _Attempt, now: float) -> None:
        """Take an attempt that has ended out of those in flight."""
        del self._in_flight[attempt.reference]
        self._accounts[attempt.number].in_flight.remove(attempt)
        self._times.remove(attempt, now, cpus=self._resources.cpus)

    def _avoid_unfit(self, result: AttemptResult) -> None:
        """Avoid the node of an attempt from now on if it cannot run any task.

        Raises:
            NodeError: No other node is left.
        """
        failure = result.failure
        if failure is None or failure.cause is not Cause.UNFIT:
            return
        node = failure.node
        if node is not None and node.id in self._unfit:
            return  # the attempt was sent to it before
        self._cluster = None  # another node may have joined
        if node is None or not self._resources.nodes.keys() - {node.id}:
            assert failure.raised is not None
            raise failure.raised
        self._unfit.add(node.id)
        self._listener.on_note(f"{node.name} is avoided: {failure.text}")

    def _report(self, task: Task, failure: Failure) -> None:
        """Report a failure that may be repeated."""
        self._listener.on_failure(task, failure)
        if failure.cause is Cause.UNFIT:
            return  # there is a note on the node
        text = failure.text.partition("\n")[0][:MAX_NOTE_CHARS]
        on_node = ""
        if failure.node is not None and len(self._cluster_resources.nodes) > 1:
            on_node = f" (on {failure.node.name})"
        self._note(f"{task.name}: {failure.cause.value}: {text}{on_node}")

    def _note(self, text: str) -> None:
        self._num_notes += 1
        if self._num_notes <= MAX_NOTES:
            last = "; further such notes are omitted" if self._num_notes == MAX_NOTES else ""
            self._listener.on_note(f"{text}{last}")


MIN_WEIGHT = 1 << 20
"""The minimum weight of a task: opening and writing files takes time however small they are."""

SLOWEST_RATE = float(1 << 20)
"""Assumed bytes per second of a task before any has ended."""

MAX_OBSERVATIONS = 10_000
"""The number of recent tasks whose times are remembered."""

PERCENTILE = 0.75


def _weight(task: Task) -> int:
    """Return the bytes by which the time of a task is expected."""
    return max(task.num_bytes, MIN_WEIGHT)


class _RunTimes:
    """How long attempts in flight seem to run, and how long tasks took for their bytes.

    Attempts are assumed to start in the order in which they were submitted, as CPUs become free.
    """

    def __init__(self) -> None:
        self._waiting: dict[_Attempt, None] = {}
        self._running: dict[_Attempt, float] = {}  # those that run longest first
        self._slowness: deque[float] = deque(maxlen=MAX_OBSERVATIONS)
        self.num_busy = 0
        """The number of CPUs on which attempts seem to run."""

    @property
    def num_running(self) -> int:
        """The number of attempts that seem to run."""
        return len(self._running)

    @property
    def seconds_per_byte(self) -> float:
        """The 75th percentile of the recent tasks."""
        if not self._slowness:
            return 1 / SLOWEST_RATE
        return sorted(self._slowness)[int(PERCENTILE * (len(self._slowness) - 1))]

    def add(self, attempt: _Attempt, now: float, *, cpus: int) -> None:
        """Add an attempt that was submitted, on a cluster with a number of CPUs."""
        self._waiting[attempt] = None
        self._advance(now, cpus)

    def remove(self, attempt: _Attempt, now: float, *, cpus: int) -> None:
        """Remove an attempt that has ended."""
        self._waiting.pop(attempt, None)
        if self._running.pop(attempt, None) is not None:
            self.num_busy -= attempt.cpus
        self._advance(now, cpus)

    def observe(self, seconds_per_byte: float) -> None:
        """Remember the time of a task that has ended."""
        self._slowness.append(seconds_per_byte)

    def longer_than(self, minimum: float, now: float) -> Iterator[tuple[_Attempt, float]]:
        """Yield the attempts that seem to run for over `minimum` seconds, the longest first."""
        for attempt, since in self._running.items():
            if now - since <= minimum:  # and so are all that follow
                return
            yield attempt, now - since

    def _advance(self, now: float, cpus: int) -> None:
        if self.num_busy >= cpus:
            return
        started = []
        for attempt in self._waiting:
            if not self.num_busy or self.num_busy + attempt.cpus <= cpus:
                started.append(attempt)
                self.num_busy += attempt.cpus
            if self.num_busy >= cpus:
                break
        for attempt in started:
            del self._waiting[attempt]
            self._running[attempt] = now


def _not_of_a_node(failure: Failure) -> Failure:
    """Return a failure without the hope for another node, where there is none."""
    return replace(failure, cause=Cause.ERROR) if failure.cause is Cause.SETUP else failure


_FINAL = {
    Cause.STORAGE: "{text} (failed {times} times; run the job again when the storage works)",
    Cause.SETUP: (
        "{text} (on {nodes}; compare the mounts, the packages and the credentials of these nodes "
        "with those of the others)"
    ),
    Cause.UNFIT: "{times} nodes in turn could not run it ({text})",
    Cause.WORKER: (
        "its worker process died {times} times ({text}); was it killed for its memory, or did "
        "native code crash? On Ray the worker's log says more. Give workers more memory or lower "
        "limits.slice_bytes, or remove the file"
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
"""Why a task failed permanently, and what to do; for other causes, the text says it all."""


def _final_message(failure: Failure, account: _Account) -> str:
    """Return why a task failed permanently, how often it failed, and what to do."""
    return _FINAL.get(failure.cause, "{text}").format(
        text=failure.text,
        times=account.failures[failure.cause],
        nodes=", ".join(node.name for node in account.nodes.values()),
    )
