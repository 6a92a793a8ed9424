"""Workers in virtual time, whose attempts take and return what a function says."""

import math
from collections import Counter
from dataclasses import dataclass, field

from nanotok_ray.job.runner import run_tasks
from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.job.worker_pool import Call, ClusterResources

MEMORY_PER_CPU = 4000
HANGS = None
"""The course of an attempt that never ends."""


def good(seconds=1.0):
    """Return the course of an attempt that succeeds."""
    return seconds, AttemptResult(result=1, seconds=seconds)


def bad(cause, seconds=0.0, text="why", *, node=None, raised=None):
    """Return the course of an attempt that fails."""
    return seconds, AttemptResult(failure=Failure(cause, text, raised, node))


@dataclass(eq=False)
class Attempt:
    """An attempt that was submitted."""

    call: Call
    number: int
    """1 for the first attempt at its task."""
    submitted: float
    node: str = ""
    began: float | None = None
    ends: float = math.inf
    result: AttemptResult | None = None
    is_killed: bool = False


@dataclass
class ScriptedPool:
    """A pool of one CPU per node, or of `cpus` CPUs of one machine; see `WorkerPool`."""

    course: object
    """Called with each `Attempt` that begins; returns its seconds and result, or `HANGS`."""
    cpus: int = 4
    nodes: str = ""
    time: float = 0.0
    attempts: list[Attempt] = field(default_factory=list)

    def __post_init__(self):
        self._numbers = Counter()
        self._waiting, self._running = [], []

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds

    def resources(self):
        nodes = dict.fromkeys(self.nodes, 1)
        cpus = len(nodes) or self.cpus
        return ClusterResources(cpus=cpus, node_cpus=8, node_memory=8 * MEMORY_PER_CPU, nodes=nodes)

    def free_cpus(self):
        return (len(self.nodes) or self.cpus) - len(self._running)

    def submit(self, call):
        self._numbers[call.name] += 1
        attempt = Attempt(call, self._numbers[call.name], self.time)
        self.attempts.append(attempt)
        self._waiting.append(attempt)
        self._advance(self.time)
        return attempt

    def wait(self, references, number, seconds):
        end = self.time + seconds
        while True:
            ended = [each for each in references if each.ends <= self.time]
            if len(ended) >= number or self.time >= end:
                return ended[:number]
            self._advance(min([end, *(each.ends for each in self._running)]))

    def result(self, reference):
        return reference.result

    def cancel(self, references, *, force=False):
        for attempt in references:
            attempt.is_killed = attempt.is_killed or force
            attempt.ends = min(attempt.ends, self.time)
        self._waiting = [each for each in self._waiting if each.ends > self.time]
        self._advance(self.time)

    def _advance(self, time):
        """Go to a time, and begin the attempts that wait, in order, as CPUs are free."""
        self.time = time
        self._running = [each for each in self._running if each.ends > time]
        for attempt in list(self._waiting):
            if not self.free_cpus():
                return
            node = self._free_node(attempt)
            if node is not None:
                self._waiting.remove(attempt)
                self._running.append(attempt)
                attempt.node, attempt.began = node, time
                course = self.course(attempt)
                if course is not HANGS:
                    attempt.ends, attempt.result = time + course[0], course[1]

    def _free_node(self, attempt):
        if not self.nodes:
            return ""
        fit = [node for node in self.nodes if node not in attempt.call.avoid]
        assert fit, "an attempt that no node can run would wait forever"
        busy = {each.node for each in self._running}
        return next((node for node in fit if node not in busy), None)


def run_on(pool, tasks, **options):
    """Run tasks on a pool; return their results by name."""
    ended = list(run_tasks(tasks, pool_of=lambda _: pool, **options))
    assert len(ended) == len(tasks)
    return {each.task.name: each for each in ended}


def causes():
    """Return the causes that are the same for all nodes and tasks."""
    return [cause for cause in Cause if cause is not Cause.UNFIT]
