"""Running the tasks of a stage: calls in flight until each has ended, stragglers included."""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from nanotok_ray.job.calls import BatchRunner, ClusterResources, Reference
from nanotok_ray.job.probes import Probe, probes_in
from nanotok_ray.job.scheduler import Scheduler, TaskBatch
from nanotok_ray.job.task import AttemptResult, Cause, Failure, RetryPolicy, Task, TaskResult

SLOWEST_RATE = float(1 << 20)
"""Bytes a second that a call is trusted to do while none has ended."""

MAX_OBSERVATIONS = 1000
"""As many of the last calls are looked at."""

PERCENTILE = 0.75


class StragglerDetector:
    """The calls in flight with the time since which they seem to run, and what calls took."""

    def __init__(self, patience: RetryPolicy) -> None:
        """Start without calls."""
        self._patience = patience
        self._running: dict[TaskBatch, float] = {}  # those that run longest first
        self._queued: OrderedDict[TaskBatch, None] = OrderedDict()
        self._large: OrderedDict[TaskBatch, None] = OrderedDict()
        self._wanted: dict[TaskBatch, int] = {}
        self._busy = 0
        self._seconds: deque[float] = deque(maxlen=MAX_OBSERVATIONS)
        self._slowness: deque[float] = deque(maxlen=MAX_OBSERVATIONS)

    def began(self, call: TaskBatch, now: float, *, cpus: int, wanted: int = 1) -> None:
        """Add a call that wants so many CPUs."""
        self._wanted[call] = wanted
        (self._large if wanted > 1 else self._queued)[call] = None
        self._advance(now, cpus)

    def left(self, call: TaskBatch, now: float, *, cpus: int, seconds: float | None = None) -> None:
        """Remove a call; `seconds` are what its slices took if it ended well."""
        wanted = self._wanted.pop(call)
        if self._running.pop(call, None) is not None:
            self._busy -= wanted
        self._queued.pop(call, None)
        self._large.pop(call, None)
        if seconds is not None:
            self._seconds.append(seconds)
            self._slowness.append(seconds / call.num_bytes)
        self._advance(now, cpus)

    def overdue(self, now: float) -> list[TaskBatch]:
        """Return calls in flight that deserve a second attempt, those that run longest first.

        Calls that have one now, or had as many as they may, are left out.
        """
        candidates = [
            (call, seconds)
            for call, seconds in self._longer_than(self._patience.overdue_floor, now)
            if call.may_have_second(self._patience)
        ]
        if not candidates:
            return []
        expected = _high(self._seconds), _high(self._slowness)
        return [call for call, seconds in candidates if seconds > self._allowed(call, *expected)]

    def past_deadline(self, now: float) -> list[tuple[TaskBatch, float]]:
        """Return calls in flight that are to be given up, with the seconds that they had."""
        deadlines = [
            (call, seconds, self._patience.deadline_of(call.num_bytes))
            for call, seconds in self._longer_than(self._patience.deadline, now)
        ]
        return [(call, given) for call, seconds, given in deadlines if seconds > given]

    @property
    def num_running(self) -> int:
        """How many calls seem to run."""
        return len(self._running)

    @property
    def num_busy(self) -> int:
        """On how many CPUs calls seem to run."""
        return self._busy

    def _longer_than(self, least: float, now: float) -> Iterator[tuple[TaskBatch, float]]:
        """Yield calls that seem to run for more than so many seconds, and for how long."""
        for call, since in self._running.items():
            if now - since <= least:  # and so are all that follow
                return
            yield call, now - since

    def _allowed(self, call: TaskBatch, seconds: float | None, slowness: float | None) -> float:
        """Return the seconds that a call may run before it is overdue."""
        if seconds is None or slowness is None:
            expected = call.num_bytes / SLOWEST_RATE
        else:
            expected = max(seconds, slowness * call.num_bytes)
        return max(self._patience.overdue_floor, self._patience.overdue_factor * expected)

    def _advance(self, now: float, cpus: int) -> None:
        while self._queued and self._busy < cpus:
            self._run(self._queued.popitem(last=False)[0], now)
        while self._large and not self._queued:
            call = next(iter(self._large))
            if self._busy and self._busy + self._wanted[call] > cpus:
                return
            del self._large[call]
            self._run(call, now)

    def _run(self, call: TaskBatch, now: float) -> None:
        self._running[call] = now
        self._busy += self._wanted[call]


def _high(values: Iterable[float]) -> float | None:
    """Return what three in four are not above, None of nothing."""
    ordered = sorted(values)
    return ordered[int(PERCENTILE * (len(ordered) - 1))] if ordered else None


END_SECONDS = 2.0
"""How long a call that was just interrupted may take to end when its stage is over."""


class SupersededBatches:
    """Calls whose other attempts ended first.

    One that hangs in native code, or on a disk that does not answer, would keep its CPU for ever.
    """

    def __init__(self, calls: BatchRunner, *, grace: float) -> None:
        """Allow them so many seconds to end by themselves."""
        self._calls = calls
        self._grace = grace
        self._since: dict[Reference, float] = {}

    def add(self, reference: Reference, now: float) -> None:
        """Interrupt a call."""
        self._since[reference] = now
        self._calls.cancel([reference])

    def kill_late(self, now: float) -> None:
        """Kill those whose time is up."""
        late = [reference for reference, since in self._since.items() if now - since > self._grace]
        for reference in late:
            del self._since[reference]
        self._calls.cancel(late, force=True)

    def end(self) -> None:
        """Kill those that have not ended after a moment.

        Ray 2.60 loses an order to kill a call that comes right after the one to interrupt it.
        """
        waiting = list(self._since)
        if waiting:
            self._calls.wait(waiting, len(waiting), END_SECONDS)
            self._calls.cancel(waiting, force=True)


WINDOW_PER_CPU = 2
"""Calls in flight for each CPU: one runs, and the next is there when it ends."""

LEAST_WINDOW = 1024
"""Calls in flight at least: waiting calls are all that an autoscaler sees of what is to do."""

MAX_WINDOW = 20_000
"""Calls in flight at most: each costs the driver 7 kB and more."""

WAIT_SECONDS = 1.0
WAIT_PARTS = 16
"""One in so many of the calls in flight is waited for at a time."""

ROOM_SECONDS = 10.0
"""How long what the cluster has is taken for known."""

OnFailure = Callable[[str, int, Failure], None]

MAX_NOTES = 5
MAX_NOTE_CHARS = 400


def run_tasks(
    tasks: Iterable[Task],
    *,
    runner_of: Callable[[Sequence[Probe]], BatchRunner],
    patience: RetryPolicy | None = None,
    on_note: Callable[[str], None] | None = None,
    on_failure: OnFailure = lambda *_: None,
    on_look: Callable[[int], None] = lambda _: None,
) -> Iterator[TaskResult]:
    """Run tasks and yield each as it ends, exactly once.

    Small tasks share a call, and the largest go first. Leaving the loop early cancels the rest.

    Args:
        tasks: what is to be done.
        patience: how often and when what failed is tried again.
        on_note: called with a text for the first few failures that are not for good, and for
            what else a person should know.
        on_failure: called for every such failure with the first slice's name, how many slices,
            and why.
        on_look: called with how many calls seem to run, a second later at the latest.
        runner_of: returns what runs the batches; its workers look at the probes first.

    Raises:
        SharedFolderError: a node does not see a folder of the tasks.
    """
    known = tuple(tasks)
    patience = patience or RetryPolicy()
    attempts = Scheduler(known, patience=patience)
    with probes_in({folder for task in known for folder in task.shared}) as probes:
        flight = _InFlight(known, attempts, patience, cluster=runner_of(probes))
        flight.on_note, flight.on_failure = on_note or flight.on_note, on_failure
        try:
            while not attempts.is_over:
                flight.fill()
                on_look(flight.num_running)
                for reference in flight.wait():
                    yield from flight.land(reference)
                yield from flight.give_up_late_ones()
        finally:
            flight.cancel_all()


class _InFlight:
    """The calls in flight."""

    def __init__(
        self,
        tasks: Sequence[Task],
        attempts: Scheduler,
        patience: RetryPolicy,
        *,
        cluster: BatchRunner,
    ) -> None:
        self._tasks = tasks
        self._attempts = attempts
        self._pace = StragglerDetector(patience)
        self._cluster = cluster
        self._overtaken = SupersededBatches(cluster, grace=patience.superseded_grace)
        self._calls: dict[Reference, TaskBatch] = {}
        self._references: dict[TaskBatch, Reference] = {}
        self._room: tuple[float, ClusterResources] | None = None
        self._num_notes = 0
        self.on_note: Callable[[str], None] = lambda _: None
        self.on_failure: OnFailure = lambda *_: None

    @property
    def room(self) -> ClusterResources:
        """What the cluster has, known since a moment."""
        now = self._cluster.now()
        if self._room is None or now - self._room[0] > ROOM_SECONDS:
            self._room = now, self._cluster.room()
        return self._room[1]

    @property
    def width(self) -> int:
        """Calls in flight at most."""
        return min(max(WINDOW_PER_CPU * self.room.cpus, LEAST_WINDOW), MAX_WINDOW)

    @property
    def num_running(self) -> int:
        """How many calls seem to run."""
        return self._pace.num_running

    def fill(self) -> None:
        """Make calls until the window is full; beside slow ones, if there is nothing else to do."""
        now = self._cluster.now()
        while len(self._calls) < self.width:
            now = self._cluster.now()
            call = self._attempts.take(now, cpus=self.room.cpus)
            if call is None:
                break
            self._make(call, now)
        if self._attempts.due(now) != 0:
            self._fill_with_seconds(now)

    def wait(self) -> list[Reference]:
        """Return calls that ended, after a while at the latest, or when a call is due."""
        seconds = WAIT_SECONDS
        if len(self._calls) < self.width:
            due = self._attempts.due(self._cluster.now())
            seconds = WAIT_SECONDS if due is None else min(WAIT_SECONDS, due)
        if not self._calls:
            self._cluster.sleep(seconds)
            return []
        return self._cluster.wait(self._calls, max(1, len(self._calls) // WAIT_PARTS), seconds)

    def land(self, reference: Reference) -> list[TaskResult]:
        """Return the slices that ended with a call."""
        call = self._calls.pop(reference, None)
        if call is None:  # its other attempt was first, since it was found to have ended
            return []
        del self._references[call]
        return self._settle(call, self._cluster.outcomes(reference, len(call.slices)))

    def give_up_late_ones(self) -> list[TaskResult]:
        """Kill calls that run past their deadlines, and yield the slices that ended with them.

        Nobody knows when a call starts; while fewer CPUs are busy than calls seem to run, some only
        wait for a CPU, and none is given up.
        """
        now = self._cluster.now()
        self._overtaken.kill_late(now)
        late = self._pace.past_deadline(now)
        if not late or self.room.cpus - self._cluster.free_cpus() < self._pace.num_busy:
            return []
        ended = []
        for call, seconds in late:
            reference = self._references.pop(call, None)
            if reference is None:  # the other attempt was given up, and the slices failed for good
                continue
            del self._calls[reference]
            self._cluster.cancel([reference], force=True)
            text = f"it ran for over {seconds:,g} s, its limit by limits.slice_deadline"
            outcome = AttemptResult(failure=Failure(Cause.SLOW, text))
            ended += self._settle(call, [outcome] * len(call.slices))
        return ended

    def cancel_all(self) -> None:
        """Cancel what is in flight, and kill superseded calls that have not ended yet."""
        self._cluster.cancel(self._calls)
        self._overtaken.end()

    def _settle(self, call: TaskBatch, outcomes: Sequence[AttemptResult]) -> list[TaskResult]:
        """Take what became of a call that is no longer in flight."""
        self._tell(call, outcomes)
        now = self._cluster.now()
        is_whole = all(outcome.failure is None for outcome in outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes) if is_whole else None
        self._pace.left(call, now, cpus=self.room.cpus, seconds=seconds)
        ended = self._attempts.ended(call, outcomes, now)
        if call.twin in self._references and not self._attempts.is_wanted(call.twin):
            self._pace.left(call.twin, now, cpus=self.room.cpus)
            reference = self._references.pop(call.twin)
            del self._calls[reference]
            self._overtaken.add(reference, now)
        return ended

    def _fill_with_seconds(self, now: float) -> None:
        """Try overdue calls a second time on CPUs that are free."""
        overdue = self._pace.overdue(now)
        if not overdue:
            return
        for slow in overdue[: self._cluster.free_cpus()]:
            self._make(self._attempts.take_second(slow), now)
            self._note(f"{self._name(slow)} takes long and is tried a second time beside the first")

    def _make(self, call: TaskBatch, now: float) -> None:
        steps = [(self._tasks[number].work, self._tasks[number].argument) for number in call.slices]
        room = self.room
        reference = self._cluster.start(
            self._name(call),
            steps,
            room=room,
            memory_level=call.memory_level,
            spread=call.is_second,
        )
        self._calls[reference] = call
        self._references[call] = reference
        self._pace.began(call, now, cpus=room.cpus, wanted=room.cpus_at(call.memory_level))

    def _tell(self, call: TaskBatch, outcomes: Sequence[AttemptResult]) -> None:
        """Report failures that may not be for good."""
        tasks = [self._tasks[number] for number in call.slices]
        failures = [
            (task.slices, outcome.failure)
            for task, outcome in zip(tasks, outcomes, strict=True)
            if outcome.failure is not None and outcome.failure.cause is not Cause.ERROR
        ]
        if failures:
            first, number = failures[0][1], sum(slices for slices, _ in failures)
            self.on_failure(tasks[0].name, number, first)
            slices = "" if number == 1 else f", {number} slices"
            text = first.text.partition("\n")[0][:MAX_NOTE_CHARS]
            self._note(f"{self._name(call)}{slices}: {first.cause.value}: {text}")

    def _note(self, text: str) -> None:
        self._num_notes += 1
        if self._num_notes <= MAX_NOTES:
            last = "; more such notes are left out" if self._num_notes == MAX_NOTES else ""
            self.on_note(f"{text}{last}")

    def _name(self, call: TaskBatch) -> str:
        name = self._tasks[call.slices[0]].name
        more = len(call.slices) - 1
        return f"{name} and {more} more" if more else name
