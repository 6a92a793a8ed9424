"""Runs the tasks of a stage in batches, with speculative attempts for slow batches."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nanotok_ray.job.probes import Probe, probes_in
from nanotok_ray.job.scheduler import Scheduler, TaskBatch
from nanotok_ray.job.task import AttemptResult, Cause, Failure, RetryPolicy, Task, TaskResult
from nanotok_ray.job.worker_pool import ClusterResources, Reference, WorkerPool

SLOWEST_RATE = float(1 << 20)
"""Assumed bytes per second of a batch before any batch has ended."""

MAX_OBSERVATIONS = 1000
"""The number of recent batches that the statistics include."""

PERCENTILE = 0.75


class StragglerDetector:
    """Tracks how long batches in flight seem to run, and how long ended batches took."""

    def __init__(self, retry_policy: RetryPolicy) -> None:
        """Create the detector without batches."""
        self._retry_policy = retry_policy
        self._running: dict[TaskBatch, float] = {}  # those that run longest first
        self._queued: OrderedDict[TaskBatch, None] = OrderedDict()
        self._large: OrderedDict[TaskBatch, None] = OrderedDict()
        self._wanted: dict[TaskBatch, int] = {}
        self._busy = 0
        self._seconds: deque[float] = deque(maxlen=MAX_OBSERVATIONS)
        self._slowness: deque[float] = deque(maxlen=MAX_OBSERVATIONS)

    def began(self, batch: TaskBatch, now: float, *, cpus: int, wanted: int = 1) -> None:
        """Add a submitted batch that requests `wanted` CPUs."""
        self._wanted[batch] = wanted
        (self._large if wanted > 1 else self._queued)[batch] = None
        self._advance(now, cpus)

    def left(
        self, batch: TaskBatch, now: float, *, cpus: int, seconds: float | None = None
    ) -> None:
        """Remove a batch; `seconds` is the time of its slices, or None if it failed."""
        wanted = self._wanted.pop(batch)
        if self._running.pop(batch, None) is not None:
            self._busy -= wanted
        self._queued.pop(batch, None)
        self._large.pop(batch, None)
        if seconds is not None:
            self._seconds.append(seconds)
            self._slowness.append(seconds / batch.weight)
        self._advance(now, cpus)

    def overdue(self, now: float) -> list[TaskBatch]:
        """Return the batches in flight that are overdue, the longest running first.

        Batches with a speculative attempt in flight, or with the maximum number of such attempts,
        are excluded.
        """
        candidates = [
            (batch, seconds)
            for batch, seconds in self._longer_than(self._retry_policy.overdue_floor, now)
            if batch.may_have_speculative(self._retry_policy)
        ]
        if not candidates:
            return []
        expected = _high(self._seconds), _high(self._slowness)
        return [batch for batch, seconds in candidates if seconds > self._allowed(batch, *expected)]

    def past_deadline(self, now: float) -> list[tuple[TaskBatch, float]]:
        """Return the batches past their deadlines, with their deadlines in seconds."""
        deadlines = [
            (batch, seconds, self._retry_policy.deadline_of(batch.num_bytes))
            for batch, seconds in self._longer_than(self._retry_policy.deadline, now)
        ]
        return [(batch, given) for batch, seconds, given in deadlines if seconds > given]

    @property
    def num_running(self) -> int:
        """The number of batches that seem to run."""
        return len(self._running)

    @property
    def num_busy(self) -> int:
        """The number of CPUs on which batches seem to run."""
        return self._busy

    def _longer_than(self, least: float, now: float) -> Iterator[tuple[TaskBatch, float]]:
        """Yield the batches that seem to run for more than `least` seconds, with their seconds."""
        for batch, since in self._running.items():
            if now - since <= least:  # and so are all that follow
                return
            yield batch, now - since

    def _allowed(self, batch: TaskBatch, seconds: float | None, slowness: float | None) -> float:
        """Return the seconds after which a batch is overdue."""
        if seconds is None or slowness is None:
            expected = batch.weight / SLOWEST_RATE
        else:
            expected = max(seconds, slowness * batch.weight)
        return max(self._retry_policy.overdue_floor, self._retry_policy.overdue_factor * expected)

    def _advance(self, now: float, cpus: int) -> None:
        while self._queued and self._busy < cpus:
            self._run(self._queued.popitem(last=False)[0], now)
        while self._large and not self._queued:
            batch = next(iter(self._large))
            if self._busy and self._busy + self._wanted[batch] > cpus:
                return
            del self._large[batch]
            self._run(batch, now)

    def _run(self, batch: TaskBatch, now: float) -> None:
        self._running[batch] = now
        self._busy += self._wanted[batch]


def _high(values: Iterable[float]) -> float | None:
    """Return the 75th percentile of values, rounded down, or None if there are none."""
    ordered = sorted(values)
    return ordered[int(PERCENTILE * (len(ordered) - 1))] if ordered else None


END_SECONDS = 2.0
"""Seconds that an interrupted batch has to end when its stage is over."""


class SupersededBatches:
    """The batches whose other attempts ended first.

    They are killed if they do not end, because a batch that hangs in native code or on a disk would
    occupy its CPU forever.
    """

    def __init__(self, workers: WorkerPool, *, grace: float) -> None:
        """Set the time in seconds that interrupted batches have to end."""
        self._workers = workers
        self._grace = grace
        self._since: dict[Reference, float] = {}

    def add(self, reference: Reference, now: float) -> None:
        """Interrupt a batch."""
        self._since[reference] = now
        self._workers.cancel([reference])

    def kill_late(self, now: float) -> None:
        """Kill the batches whose time has passed."""
        late = [reference for reference, since in self._since.items() if now - since > self._grace]
        for reference in late:
            del self._since[reference]
        self._workers.cancel(late, force=True)

    def end(self) -> None:
        """Kill the batches that have not ended after `END_SECONDS`.

        Ray 2.60 loses a request to kill a batch that directly follows one to interrupt it.
        """
        waiting = list(self._since)
        if waiting:
            self._workers.wait(waiting, len(waiting), END_SECONDS)
            self._workers.cancel(waiting, force=True)


WINDOW_PER_CPU = 2
"""Batches in flight per CPU: one runs, and one waits to follow it without delay."""

MIN_WINDOW = 1024
"""Minimum number of batches in flight. An autoscaler sees the work only as waiting batches."""

MAX_WINDOW = 20_000
"""Maximum number of batches in flight, each of which takes 7 kB or more in the driver."""

WAIT_SECONDS = 1.0
WAIT_PARTS = 16
"""One wait returns at most this fraction (1 / WAIT_PARTS) of the batches in flight."""

RESOURCES_SECONDS = 10.0
"""Seconds for which the resources of the cluster are cached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskListener:
    """The functions that are called while tasks run."""

    on_note: Callable[[str], None] = lambda _: None
    """Called with a text for the first failures that are not permanent, and for other notes to the
    user."""
    on_failure: Callable[[str, int, Failure], None] = lambda *_: None
    """Called for each failed attempt that may be repeated: the name of the first slice, the number
    of slices, and the failure."""
    on_running: Callable[[int], None] = lambda _: None
    """Called about every second with the number of batches that seem to run."""
    on_cluster: Callable[[ClusterResources], None] = lambda _: None
    """Called with the resources of the cluster whenever they were looked up."""


MAX_NOTES = 5
MAX_NOTE_CHARS = 400


def run_tasks(
    tasks: Iterable[Task],
    *,
    pool_of: Callable[[Sequence[Probe]], WorkerPool],
    retry_policy: RetryPolicy | None = None,
    listener: TaskListener | None = None,
) -> Iterator[TaskResult]:
    """Run tasks and yield the result of each exactly once, as it ends.

    Small tasks share a batch, and the largest tasks start first. Closing the iterator early cancels
    the other tasks.

    Args:
        tasks: The tasks.
        retry_policy: How often and when a failed attempt is repeated.
        listener: What is called meanwhile.
        pool_of: Returns the workers that run the batches; they check the probes first.

    Raises:
        NodeError: No node can run the tasks; a SharedFolderError if they do not see a folder.
    """
    known = tuple(tasks)
    retry_policy, listener = retry_policy or RetryPolicy(), listener or TaskListener()
    scheduler = Scheduler(known, retry_policy=retry_policy)
    with probes_in({folder for task in known for folder in task.shared}) as probes:
        flight = _InFlight(known, scheduler, retry_policy, workers=pool_of(probes))
        flight.listener = listener
        try:
            while not scheduler.is_over:
                flight.fill()
                listener.on_running(flight.num_running)
                for reference in flight.wait():
                    yield from flight.finish(reference)
                yield from flight.give_up_late()
        finally:
            flight.cancel_all()


class _InFlight:
    """The batches in flight."""

    def __init__(
        self,
        tasks: Sequence[Task],
        scheduler: Scheduler,
        retry_policy: RetryPolicy,
        *,
        workers: WorkerPool,
    ) -> None:
        self._tasks = tasks
        self._scheduler = scheduler
        self._stragglers = StragglerDetector(retry_policy)
        self._workers = workers
        self._superseded = SupersededBatches(workers, grace=retry_policy.superseded_grace)
        self._batches: dict[Reference, TaskBatch] = {}
        self._references: dict[TaskBatch, Reference] = {}
        self._cluster: tuple[float, ClusterResources] | None = None
        self._unfit: set[str] = set()
        self._num_notes = 0
        self.listener = TaskListener()

    @property
    def cluster(self) -> ClusterResources:
        """The resources of the cluster, at most `RESOURCES_SECONDS` old."""
        now = self._workers.now()
        if self._cluster is None or now - self._cluster[0] > RESOURCES_SECONDS:
            self._cluster = now, self._workers.resources()
            self.listener.on_cluster(self._cluster[1])
        return self._cluster[1]

    @property
    def resources(self) -> ClusterResources:
        """The resources of the cluster without its unfit nodes."""
        return self.cluster.without(self._unfit)

    @property
    def width(self) -> int:
        """The maximum number of batches in flight."""
        return min(max(WINDOW_PER_CPU * self.resources.cpus, MIN_WINDOW), MAX_WINDOW)

    @property
    def num_running(self) -> int:
        """How many batches seem to run."""
        return self._stragglers.num_running

    def fill(self) -> None:
        """Submit batches until the maximum is in flight, then speculative attempts."""
        now = self._workers.now()
        while len(self._batches) < self.width:
            now = self._workers.now()
            batch = self._scheduler.take(now, cpus=self.resources.cpus)
            if batch is None:
                break
            self._make(batch, now)
        if self._scheduler.due(now) != 0:
            self._fill_with_speculative(now)

    def wait(self) -> list[Reference]:
        """Wait for batches and return those that ended; return early if a batch is due."""
        seconds = WAIT_SECONDS
        if len(self._batches) < self.width:
            due = self._scheduler.due(self._workers.now())
            seconds = WAIT_SECONDS if due is None else min(WAIT_SECONDS, due)
        if not self._batches:
            self._workers.sleep(seconds)
            return []
        return self._workers.wait(self._batches, max(1, len(self._batches) // WAIT_PARTS), seconds)

    def finish(self, reference: Reference) -> list[TaskResult]:
        """Return the final results of the slices that ended with a batch."""
        batch = self._batches.pop(reference, None)
        if batch is None:  # its other attempt ended first, after this one was found to have ended
            return []
        del self._references[batch]
        return self._settle(batch, self._workers.results(reference, len(batch.slices)))

    def give_up_late(self) -> list[TaskResult]:
        """Kill the batches past their deadlines, and return the slices that ended with them.

        Workers do not report when a batch starts. While fewer CPUs are busy than batches seem to
        run, some batches only wait for a CPU, and none is killed.
        """
        now = self._workers.now()
        self._superseded.kill_late(now)
        late = self._stragglers.past_deadline(now)
        if not late or self.resources.cpus - self._free_cpus() < self._stragglers.num_busy:
            return []
        ended = []
        for batch, seconds in late:
            reference = self._references.pop(batch, None)
            if (
                reference is None
            ):  # the other attempt was given up, and the slices failed permanently
                continue
            del self._batches[reference]
            self._workers.cancel([reference], force=True)
            text = f"it ran for over {seconds:,g} s, its limit by limits.slice_deadline"
            outcome = AttemptResult(failure=Failure(Cause.SLOW, text))
            ended += self._settle(batch, [outcome] * len(batch.slices))
        return ended

    def cancel_all(self) -> None:
        """Cancel the batches in flight, and kill superseded batches that have not ended."""
        self._workers.cancel(self._batches)
        self._superseded.end()

    def _settle(self, batch: TaskBatch, outcomes: Sequence[AttemptResult]) -> list[TaskResult]:
        """Record the results of a batch that is no longer in flight."""
        self._avoid_unfit(outcomes)
        if len(self.cluster.nodes) <= 1:
            outcomes = [_not_of_a_node(outcome) for outcome in outcomes]
        self._report(batch, outcomes)
        now = self._workers.now()
        is_whole = all(outcome.failure is None for outcome in outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes) if is_whole else None
        self._stragglers.left(batch, now, cpus=self.resources.cpus, seconds=seconds)
        ended = self._scheduler.ended(batch, outcomes, now, nodes=self.resources.nodes)
        if batch.other_attempt in self._references and not self._scheduler.is_wanted(
            batch.other_attempt
        ):
            self._stragglers.left(batch.other_attempt, now, cpus=self.resources.cpus)
            reference = self._references.pop(batch.other_attempt)
            del self._batches[reference]
            self._superseded.add(reference, now)
        return ended

    def _fill_with_speculative(self, now: float) -> None:
        """Submit speculative attempts at overdue batches while CPUs are free."""
        overdue = self._stragglers.overdue(now)
        if not overdue:
            return
        for slow in overdue[: self._free_cpus()]:
            self._make(self._scheduler.take_speculative(slow), now)
            self._note(f"{self._name(slow)} takes long and gets a speculative attempt")

    def _make(self, batch: TaskBatch, now: float) -> None:
        steps = [
            (self._tasks[number].work, self._tasks[number].argument) for number in batch.slices
        ]
        resources = self.resources
        reference = self._workers.submit(
            self._name(batch),
            steps,
            resources=resources,
            memory_level=batch.memory_level,
            spread=batch.is_speculative,
            avoid=batch.avoid | self._unfit,
        )
        self._batches[reference] = batch
        self._references[batch] = reference
        self._stragglers.began(
            batch, now, cpus=resources.cpus, wanted=resources.cpus_at(batch.memory_level)
        )

    def _free_cpus(self) -> int:
        """Return the idle CPUs of fit nodes, where unfit nodes are idle."""
        return max(0, self._workers.free_cpus() - (self.cluster.cpus - self.resources.cpus))

    def _avoid_unfit(self, outcomes: Sequence[AttemptResult]) -> None:
        """Avoid the node of a batch from now on if it cannot run any slice.

        Raises:
            NodeError: No other node is left.
        """
        failure = outcomes[0].failure
        if failure is None or failure.cause is not Cause.UNFIT:
            return
        node = failure.node
        if node is not None and node.id in self._unfit:
            return  # the batch was sent to it before
        self._cluster = None  # another node may have joined
        if node is None or not self.resources.nodes.keys() - {node.id}:
            assert failure.raised is not None
            raise failure.raised
        self._unfit.add(node.id)
        self.listener.on_note(f"{node.name} is avoided: {failure.text}")

    def _report(self, batch: TaskBatch, outcomes: Sequence[AttemptResult]) -> None:
        """Report failures that are not permanent yet."""
        tasks = [self._tasks[number] for number in batch.slices]
        failures = [
            (task.slices, outcome.failure)
            for task, outcome in zip(tasks, outcomes, strict=True)
            if outcome.failure is not None and outcome.failure.cause is not Cause.ERROR
        ]
        if failures:
            first, number = failures[0][1], sum(slices for slices, _ in failures)
            self.listener.on_failure(tasks[0].name, number, first)
            if first.cause is Cause.UNFIT:
                return  # there is a note on the node
            slices = "" if number == 1 else f", {number} slices"
            text = first.text.partition("\n")[0][:MAX_NOTE_CHARS]
            on_node = ""
            if first.node is not None and len(self.cluster.nodes) > 1:
                on_node = f" (on {first.node.name})"
            self._note(f"{self._name(batch)}{slices}: {first.cause.value}: {text}{on_node}")

    def _note(self, text: str) -> None:
        self._num_notes += 1
        if self._num_notes <= MAX_NOTES:
            last = "; further such notes are omitted" if self._num_notes == MAX_NOTES else ""
            self.listener.on_note(f"{text}{last}")

    def _name(self, batch: TaskBatch) -> str:
        name = self._tasks[batch.slices[0]].name
        more = len(batch.slices) - 1
        return f"{name} and {more} more" if more else name


def _not_of_a_node(outcome: AttemptResult) -> AttemptResult:
    """Return a result whose failure another node would not avoid, where there is none."""
    failure = outcome.failure
    if failure is None or failure.cause is not Cause.SETUP:
        return outcome
    return replace(outcome, failure=replace(failure, cause=Cause.ERROR))
