"""Executors for tests: in this process, in other orders, with failures, and with other work."""

import random
from contextlib import contextmanager
from dataclasses import replace

import pytest

from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.errors import NanotokError
from nanotok_ray.job.executor import Executor
from nanotok_ray.job.task import TaskResult
from nanotok_ray.job.training import learn_tokenizer


@contextmanager
def in_place_of_ray(executor):
    """Let jobs that would run on a local Ray run on another executor while the block runs."""

    def of(*, address):
        return executor if address is None else RayExecutor(address=address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nanotok_ray.cluster.ray_executor.RayExecutor", of)
        yield


def do_nothing(**_):
    """Do nothing when a session is opened."""


class InProcess(Executor):
    """Runs tasks one after the other in this process, without Ray."""

    name = "in process"

    def __init__(self, *, order=list, on_session=do_nothing):
        """Store a function that orders the tasks, and one that is called for each session."""
        self.order, self.on_session = order, on_session

    @contextmanager
    def session(self, **options):
        self.on_session(**options)
        yield

    def pool(self, probes):
        raise NotImplementedError("tasks run one after the other, without a pool")

    def learn(self, training, counted, out, *, on_event):
        return learn_tokenizer(training, counted, out, threads=1, on_event=on_event)

    def run(self, tasks, **_):
        for task in self.order(tasks):
            yield self.ended(task)

    def ended(self, task):
        try:
            return TaskResult(task=task, result=task.work(task.argument))
        except NanotokError as error:
            return TaskResult(task=task, error=str(error), raised=error)


def backwards(tasks):
    """Return the tasks in reverse order: `InProcess(order=backwards)`."""
    return list(reversed(tasks))


def shuffled(seed):
    """Return a function that shuffles tasks: `InProcess(order=shuffled(3))`."""

    def order(tasks):
        tasks = list(tasks)
        random.Random(seed).shuffle(tasks)
        return tasks

    return order


class Twice(InProcess):
    """Runs each task twice, and ends it once or twice."""

    def __init__(self, *, ends):
        super().__init__()
        self.ends = ends

    def run(self, tasks, **_):
        for task in tasks:
            first, second = self.ended(task), self.ended(task)
            assert first == second
            yield from [first, second][: self.ends]


class FailingFirst(InProcess):
    """Fails the first task without running it."""

    def __init__(self, error, **options):
        super().__init__(**options)
        self.error = error

    def run(self, tasks, **options):
        yield TaskResult(task=tasks[0], error=self.error)
        yield from super().run(tasks[1:], **options)


class Replacing(Executor):
    """Replaces functions, on another executor.

    Tests wrap the work of a stage so that it fails, kills its worker or records something.
    """

    def __init__(self, works, executor=None):
        """Store the replacements by function; the default executor is `InProcess()`."""
        self.works, self.executor = works, executor or InProcess()
        self.name = self.executor.name

    def check(self):
        self.executor.check()

    def session(self, **options):
        return self.executor.session(**options)

    def pool(self, probes):
        return self.executor.pool(probes)

    def learn(self, *arguments, **options):
        return self.executor.learn(*arguments, **options)

    def metrics(self):
        return self.executor.metrics()

    def run(self, tasks, **options):
        changed = [replace(task, work=self.works.get(task.work, task.work)) for task in tasks]
        return self.executor.run(changed, **options)


def on_ray_with(works):
    """Return an executor on Ray with replaced functions."""
    return Replacing(works, RayExecutor())
