"""A cluster in virtual time with the interface of a worker pool (`nanotok_ray/job/worker_pool.py`).

Events on a heap advance the time; nothing sleeps. Calls wait in order for CPUs; for a call that
needs several, a node is kept free, as observed with Ray 2.60. Slices, the course of each call, and
the life of nodes are drawn from a seed and from the rates of `Faults`; the work of tasks is never
run. The autoscaler sees only the number of CPUs that waiting calls need.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nanotok_ray.job.task import AttemptResult, Cause, Failure, Task
from nanotok_ray.job.worker_pool import Call, ClusterResources, Reference

MEDIAN_BYTES = 256 << 20
"""The default of `limits.slice_bytes`."""

SIGMA = 0.7
"""Parameter of the log-normal sizes: one in a thousand is nine times the median."""

MAX_BYTES = 4 << 30
BYTES_PER_SECOND = 25e6
"""Speed of one CPU: a quarter of the measured speed, as with slow storage."""

HARD, HARDER = 0.2, 3.0
"""Share of the slices whose text takes longer, and the factor."""

CALL_SECONDS = 0.005
"""Seconds of a call besides its slice."""

STUBBORN = 0.5
"""Share of hanging calls that an interrupt does not end."""

STORAGE = Failure(Cause.STORAGE, "slow down")
WORKER = Failure(Cause.WORKER, "killed")
MEMORY = Failure(Cause.MEMORY, "no memory")

NODE_CPUS = 16
NODE_MEMORY = 64 << 30

START_SECONDS = (0.0005, 0.002)
"""Seconds of the driver for creating a call: Ray creates about a thousand per second."""

LAND_SECONDS = 0.0002
TICK_SECONDS = 5.0
"""Seconds between decisions of the autoscaler."""

NODE_DIED = AttemptResult(failure=Failure(Cause.NODE, "node died"))
CANCELLED = AttemptResult()


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """The conditions of one scenario. Times are in virtual seconds."""

    slow_nodes: float = 0.0
    """Share of slow nodes, at least one node if it is not 0."""
    slowness: float = 10.0
    """The factor of all times on slow nodes."""
    hangs: float = 0.0
    """Attempts that never end; an interrupt does not end half of them."""
    worker_deaths: float = 0.0
    """Attempts in which the worker dies, with all slices of its call."""
    storage_failures: float = 0.0
    """Attempts that fail in a way that a retry can solve."""
    node_life: float | None = None
    """Mean life of a node; None: unlimited."""
    noticed: float = 0.5
    """Share of the disappearing nodes that are drained before; the others die at once."""
    notice: float = 120.0
    """How long before."""
    detection: float = 15.0
    """How long the driver does not know that a node died without notice."""
    node_wait: tuple[float, float] = (120.0, 300.0)
    """How long a node takes to come after the autoscaler asked for it: between these."""
    hungry_bytes: int | None = None
    """Slices of more run out of memory unless it is doubled for them."""
    starved: bool = False
    """Whether calls that want several CPUs get them only when no other call waits."""
    poison: int = 0
    """Slices that always kill their worker."""


CALM = Faults()
STRAGGLERS = Faults(slow_nodes=0.01, hangs=0.0002)
STORM = Faults(node_life=1800.0)
ALL = replace(
    STRAGGLERS,
    node_life=1800.0,
    worker_deaths=0.001,
    storage_failures=0.005,
    hungry_bytes=2 << 30,
    poison=5,
)


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of the simulation."""

    number: int
    seconds: float
    """Seconds on a CPU without slowdown."""
    is_poison: bool
    least_cpus: int
    """The CPUs, with their shares of memory, below which the slice runs out of memory."""


def tasks_of(count: int, faults: Faults, rng: random.Random) -> list[Task]:
    """Draw tasks whose arguments are slices."""
    poison = set(rng.sample(range(count), min(faults.poison, count)))
    return [_task(number, number in poison, faults, rng) for number in range(count)]


def ideal_seconds(tasks: list[Task], *, cpus: int) -> float:
    """Return a lower bound for schedulers: all work divided by the CPUs, or the longest slice."""
    work: list[float] = [task.argument.seconds for task in tasks]
    return max(sum(work) / cpus, *work)


def _task(number: int, is_poison: bool, faults: Faults, rng: random.Random) -> Task:
    size = min(MAX_BYTES, int(MEDIAN_BYTES * rng.lognormvariate(0.0, SIGMA)))
    seconds = size / BYTES_PER_SECOND * rng.lognormvariate(0.0, 0.2)
    seconds *= HARDER if rng.random() < HARD else 1.0
    is_hungry = faults.hungry_bytes is not None and size > faults.hungry_bytes
    own = Slice(number, seconds, is_poison, 2 if is_hungry else 1)
    return Task(name=f"slice {number}", work=len, argument=own, num_bytes=size)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a slice that succeeded."""

    cpu_seconds: float
    call: int


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a call that nothing stops."""

    seconds: float
    outcome: AttemptResult | None
    """None: the call hangs."""
    is_stubborn: bool = False
    """Whether an interrupt does not end the hanging call."""


def course_of(
    own: Slice, faults: Faults, rng: random.Random, *, call: int, cpus: int, slowness: float
) -> Course:
    """Draw the course of a slice on a node."""
    took = own.seconds * slowness * rng.uniform(0.9, 1.1)
    if rng.random() < faults.hangs:
        return Course(0.0, None, is_stubborn=rng.random() < STUBBORN)
    failure = _failure(own, cpus, faults, rng)
    if failure is not None:
        took *= rng.random()
        return Course(CALL_SECONDS + took, AttemptResult(seconds=took, failure=failure))
    outcome = AttemptResult(result=Result(took * cpus, call), seconds=took)
    return Course(CALL_SECONDS + took, outcome)


def _failure(own: Slice, cpus: int, faults: Faults, rng: random.Random) -> Failure | None:
    if cpus < own.least_cpus:
        return MEMORY
    if own.is_poison or rng.random() < faults.worker_deaths:
        return WORKER
    return STORAGE if rng.random() < faults.storage_failures else None


@dataclass(eq=False, slots=True)
class Node:
    """A machine. It is `up` until it dies, `open` to calls until it is drained."""

    number: int
    since: float
    slowness: float = 1.0
    free: int = NODE_CPUS
    is_up: bool = True
    is_open: bool = True
    is_seen: bool = True
    """Whether the cluster takes it for alive."""
    is_kept: bool = False
    """Whether it is kept for a call that wants several CPUs."""
    running: set[int] = field(default_factory=set)
    """Numbers of the calls that it runs."""


class Nodes:
    """All nodes that there ever were."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._all: dict[int, Node] = {}
        self._number = 0
        self._free: list[Node] = []
        self._places: dict[Node, int] = {}
        self._cpu_seconds = 0.0

    def __len__(self) -> int:
        """Nodes that are up and open."""
        return sum(node.is_open for node in self._all.values())

    def add(self, now: float, slowness: float) -> Node:
        """Let a node join."""
        node = Node(self._number, now, slowness)
        self._number += 1
        self._all[node.number] = node
        self._offer(node)
        return node

    def drain(self, node: Node) -> None:
        """Return a node no more calls."""
        node.is_open = False
        self._withdraw(node)

    def kill(self, node: Node, now: float) -> None:
        """Let a node go away; it is seen as alive until `forget`."""
        self.drain(node)
        node.is_up = False
        self._cpu_seconds += NODE_CPUS * (now - node.since)

    def forget(self, node: Node) -> None:
        """Let the cluster see that a node is dead."""
        node.is_seen = False
        self._all.pop(node.number, None)

    def take(self, cpus: int, *, spread: bool) -> Node | None:
        """Take CPUs of a node that has them, any, or the one with the most; None: none has."""
        if not self._free:
            return None
        if cpus == 1 and not spread:
            node = self._free[self._rng.randrange(len(self._free))]
        else:
            node = max(self._free, key=lambda each: (each.free, -each.number))
        if node.free < cpus:
            return None
        node.free -= cpus
        if not node.free:
            self._withdraw(node)
        return node

    def give(self, node: Node, cpus: int) -> None:
        """Return CPUs back."""
        node.free += cpus
        if node.is_open and not node.is_kept and node not in self._places:
            self._offer(node)

    def keep_one(self) -> Node | None:
        """Keep a node for a call that wants several CPUs, if there is any."""
        choice = [node for node in self._all.values() if node.is_open]
        if not choice:
            return None
        node = choice[self._rng.randrange(len(choice))]
        node.is_kept = True
        self._withdraw(node)
        return node

    def release(self, node: Node) -> None:
        """Let a node that was kept have any call."""
        node.is_kept = False
        if node.is_open and node.free:
            self._offer(node)

    @property
    def seen_cpus(self) -> int:
        """CPUs of nodes that are taken for alive."""
        return NODE_CPUS * len(self._all)

    @property
    def free_cpus(self) -> int:
        """CPUs that a call could have now."""
        return sum(node.free for node in self._free)

    def cpu_seconds(self, now: float) -> float:
        """CPU seconds that there were so far, used or not."""
        up = sum(now - node.since for node in self._all.values() if node.is_up)
        return self._cpu_seconds + NODE_CPUS * up

    def _offer(self, node: Node) -> None:
        self._places[node] = len(self._free)
        self._free.append(node)

    def _withdraw(self, node: Node) -> None:
        """Take a node out of those with free CPUs: the last takes its place."""
        place = self._places.pop(node, None)
        if place is None:
            return
        last = self._free.pop()
        if last is not node:
            self._free[place] = last
            self._places[last] = place


@dataclass(eq=False, slots=True)
class _Call:
    """A call that was started."""

    number: int
    slice: Any
    cpus: int
    spread: bool
    node: Node | None = None
    since: float = 0.0
    course: Course | None = None
    outcome: AttemptResult | None = None
    """None: the call has not ended."""


class SimulatedCluster:
    """Nodes, a queue of calls, and the time."""

    def __init__(self, faults: Faults, *, nodes: int, first_nodes: int, seed: int) -> None:
        self._faults = faults
        self._most_nodes = nodes
        self._rng = random.Random(f"cluster {seed}")
        self._nodes = Nodes(self._rng)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()
        self._calls: dict[int, _Call] = {}
        self._ended: dict[Reference, None] = {}
        self._small: deque[_Call] = deque()
        self._large: deque[_Call] = deque()
        self._kept: Node | None = None
        self._coming = 0
        self.num_calls = self.nodes_lost = self.num_waits = 0
        self.seconds: set[int] = set()
        self.busy_seconds = 0.0
        slow = max(1, round(faults.slow_nodes * nodes)) if faults.slow_nodes else 0
        for number in range(first_nodes):
            self._join(faults.slowness if number < slow else 1.0)
        self._at(0.0, self._tick)

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that existed so far."""
        return self._nodes.cpu_seconds(self._now)

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._pass(self._now + seconds)

    def resources(self) -> ClusterResources:
        cpus = self._nodes.seen_cpus
        return ClusterResources(cpus=max(1, cpus), node_cpus=NODE_CPUS, node_memory=NODE_MEMORY)

    def free_cpus(self) -> int:
        return self._nodes.free_cpus

    def submit(self, call: Call) -> Reference:
        self._pass(self._now + self._rng.uniform(*START_SECONDS))
        own = _Call(next(self._numbers), call.argument, call.request.cpus, call.spread)
        self._calls[own.number] = own
        self.num_calls += 1
        if call.spread:
            self.seconds.add(own.number)
        (self._small if own.cpus == 1 else self._large).append(own)
        self._dispatch()
        return own.number

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        self.num_waits += 1
        end = self._now + seconds
        ready = [each for each in self._ended if each in references]
        while len(ready) < number and self._events and self._events[0][0] <= end:
            seen = len(self._ended)
            self._step()
            new = itertools.islice(reversed(self._ended), len(self._ended) - seen)
            ready += [each for each in new if each in references]
        if len(ready) < number:
            self._now = max(self._now, end)
        return sorted(ready)[:number]  # type: ignore[type-var]

    def result(self, reference: Reference) -> AttemptResult:
        self._pass(self._now + LAND_SECONDS)
        del self._ended[reference]
        outcome: AttemptResult | None = self._calls.pop(reference).outcome  # type: ignore[call-overload]
        assert outcome is not None
        return outcome

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        for reference in references:
            call = self._calls.get(reference)  # type: ignore[call-overload]
            if call is not None and call.outcome is None and (force or not self._is_deaf(call)):
                self._end(call, CANCELLED)
        self._dispatch()

    @staticmethod
    def _is_deaf(call: _Call) -> bool:
        return call.course is not None and call.course.is_stubborn

    def _at(self, time: float, what: Callable[..., None], *arguments: Any) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), what, arguments))

    def _pass(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self._step()
        self._now = max(self._now, end)

    def _step(self) -> None:
        time, _, what, arguments = heapq.heappop(self._events)
        self._now = max(self._now, time)
        what(*arguments)

    def _dispatch(self) -> None:
        if not self._faults.starved:
            self._dispatch_large()
        while (call := self._first(self._small)) is not None:
            node = self._nodes.take(call.cpus, spread=call.spread)
            if node is None:
                return
            self._run(self._small.popleft(), node)
        if self._faults.starved:
            self._dispatch_large()

    def _dispatch_large(self) -> None:
        """Run calls that need several CPUs of a node, or keep a node free for the first of them."""
        while (call := self._first(self._large)) is not None:
            if self._kept is not None and self._kept.is_open:
                if self._kept.free < call.cpus:
                    return
                self._nodes.release(self._kept)
                self._kept = None
            node = self._nodes.take(call.cpus, spread=True)
            if node is None:
                self._kept = None if self._faults.starved else self._nodes.keep_one()
                return
            self._run(self._large.popleft(), node)

    @staticmethod
    def _first(queue: deque[_Call]) -> _Call | None:
        """Return the first call of a queue that was not cancelled."""
        while queue and queue[0].outcome is not None:
            queue.popleft()
        return queue[0] if queue else None

    def _run(self, call: _Call, node: Node) -> None:
        call.node, call.since = node, self._now
        node.running.add(call.number)
        call.course = course_of(
            call.slice,
            self._faults,
            self._rng,
            call=call.number,
            cpus=call.cpus,
            slowness=node.slowness,
        )
        if call.course.outcome is not None:
            self._at(self._now + call.course.seconds, self._finish, call)

    def _finish(self, call: _Call) -> None:
        if call.outcome is None and call.node is not None and call.node.is_up:
            assert call.course is not None
            assert call.course.outcome is not None
            self._end(call, call.course.outcome)
            self._dispatch()

    def _end(self, call: _Call, outcome: AttemptResult) -> None:
        """End a call, and release its CPUs."""
        call.outcome = outcome
        self._ended[call.number] = None
        if call.node is not None and call.number in call.node.running:
            self._stop(call, call.node)
            self._nodes.give(call.node, call.cpus)

    def _stop(self, call: _Call, node: Node) -> None:
        node.running.discard(call.number)
        self.busy_seconds += call.cpus * (self._now - call.since)

    def _join(self, slowness: float) -> None:
        node = self._nodes.add(self._now, slowness)
        if self._faults.node_life is not None:
            life = self._rng.expovariate(1.0 / self._faults.node_life)
            if self._rng.random() < self._faults.noticed:
                self._at(self._now + life, self._drain, node)
                life += self._faults.notice
                self._at(self._now + life, self._die, node, 1.0)
            else:
                self._at(self._now + life, self._die, node, self._faults.detection)
        self._dispatch()

    def _drain(self, node: Node) -> None:
        self._nodes.drain(node)

    def _die(self, node: Node, detection: float) -> None:
        self.nodes_lost += 1
        self._nodes.kill(node, self._now)
        calls = [self._calls[number] for number in sorted(node.running)]
        for call in calls:
            self._stop(call, node)
        self._at(self._now + detection, self._see_death, node, calls)

    def _see_death(self, node: Node, calls: Sequence[_Call]) -> None:
        self._nodes.forget(node)
        for call in calls:
            if call.outcome is None:
                self._end(call, NODE_DIED)

    def _tick(self) -> None:
        """Let the autoscaler request nodes for waiting calls."""
        waiting = sum(call.cpus for call in self._small) + sum(call.cpus for call in self._large)
        wanted = -(-waiting // NODE_CPUS) - self._coming
        allowed = self._most_nodes - len(self._nodes) - self._coming
        for _ in range(max(0, min(wanted, allowed))):
            self._coming += 1
            is_slow = self._rng.random() < self._faults.slow_nodes
            wait = self._rng.uniform(*self._faults.node_wait)
            self._at(self._now + wait, self._arrive, self._faults.slowness if is_slow else 1.0)
        self._at(self._now + TICK_SECONDS, self._tick)

    def _arrive(self, slowness: float) -> None:
        self._coming -= 1
        self._join(slowness)
