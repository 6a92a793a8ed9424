"""A cluster in virtual time with the interface of a worker pool (`nanotok_ray/job/worker_pool.py`).

Events on a heap advance the time; nothing sleeps. Calls wait in order for CPUs; for a call that
needs several, a node is kept free, as observed with Ray 2.60. Nodes disappear and appear according
to the faults; the autoscaler sees only the number of CPUs that waiting calls need.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.job.worker_pool import Call, ClusterResources, Reference
from simulated_attempts import Course, course_of
from simulated_faults import Faults
from simulated_nodes import NODE_CPUS, NODE_MEMORY, Node, Nodes

START_SECONDS = (0.0005, 0.002)
"""Seconds of the driver for creating a call: Ray creates about a thousand per second."""

LAND_SECONDS = 0.0002
TICK_SECONDS = 5.0
"""Seconds between decisions of the autoscaler."""

NODE_DIED = AttemptResult(failure=Failure(Cause.NODE, "node died"))
CANCELLED = AttemptResult()


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
