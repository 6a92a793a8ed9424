"""Jobs on this machine alone: tasks in worker processes, or in threads; Ray is never imported."""

import pickle
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue

from nanotok_ray.counts import default_threads
from nanotok_ray.job.counting import Training
from nanotok_ray.job.events import Note, OnEvent
from nanotok_ray.job.executor import Executor
from nanotok_ray.job.local_worker import command
from nanotok_ray.job.probes import Probe, Shared
from nanotok_ray.job.reducing import WeightedCounts
from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.job.termination import terminable
from nanotok_ray.job.training import learn_tokenizer
from nanotok_ray.job.worker_pool import (
    ClusterResources,
    Reference,
    Step,
    batch_failure,
    run_batch,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

CLOSE_SECONDS = 2.0
"""How long an idle worker may take to end before it is killed."""


class WorkerDiedError(Exception):
    """A worker process ended in the middle of a batch."""


class WorkerProcess:
    """A process of this machine that runs batches for one thread of the driver."""

    def __init__(self) -> None:
        """Start the process, in a session of its own: Ctrl-C reaches the driver alone."""
        driver_end, worker_end = socket.socketpair()
        with worker_end:
            descriptor = worker_end.fileno()
            self._process = subprocess.Popen(  # noqa: S603 - this very program
                command(descriptor),
                stdin=subprocess.DEVNULL,
                pass_fds=(descriptor,),
                start_new_session=True,
            )
        self._connection = Connection(driver_end.detach())

    def run(self, steps: Sequence[Step], probes: Sequence[Probe]) -> list[AttemptResult]:
        """Run a batch and return the results of its steps.

        Raises:
            WorkerDiedError: The process ended before it replied.
            BaseException: What the batch as a whole raised.
        """
        message = pickle.dumps((steps, probes))
        try:
            self._connection.send_bytes(message)
            reply = self._connection.recv_bytes()
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(_ending(self._process.wait())) from error
        is_run, value = pickle.loads(reply)  # noqa: S301 - from a process that this one started
        if not is_run:
            raise value
        results: list[AttemptResult] = value
        return results

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the batch that runs."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process: at once if it is busy, else after a moment."""
        self._connection.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _ending(code: int) -> str:
    """Return how a process ended.

    >>> _ending(-9), _ending(3)
    ('its process was killed by SIGKILL', 'its process ended with exit code 3')
    """
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


class _Batch:
    """A batch that was submitted; its identity is the reference that the scheduler holds."""

    def __init__(self, steps: Sequence[Step], probes: Sequence[Probe]) -> None:
        self.steps, self.probes = steps, probes
        self.process: WorkerProcess | None = None
        """The process that runs it now; None: none does."""
        self.has_begun = self.has_ended = False
        self.outcome: list[AttemptResult] | BaseException = []
        """The results of the steps, or what the batch as a whole raised."""


class LocalWorkers:
    """The workers of a session: threads of the driver, each with a process while it has a batch.

    A signal can raise in the main thread at any call, also directly after a lock of Python code,
    such as that of a future or an event, was acquired; a worker would then wait for it forever. The
    main thread therefore shares only locks and queues with the workers that are written in C.
    """

    def __init__(self, cpus: int, *, in_threads: bool) -> None:
        """Start nothing; threads and processes start with the first batches.

        Args:
            cpus: The number of batches that run at the same time.
            in_threads: Whether the threads run the batches themselves.
        """
        self.cpus = cpus
        self.ended: SimpleQueue[None] = SimpleQueue()
        """An entry for each batch that has ended."""
        self._in_threads = in_threads
        self._threads: list[threading.Thread] = []
        self._todo: SimpleQueue[_Batch | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._running: set[_Batch] = set()
        self._is_closed = False

    @property
    def num_running(self) -> int:
        """The number of batches that run."""
        return len(self._running)

    def submit(self, steps: Sequence[Step], probes: Sequence[Probe]) -> _Batch:
        """Run a batch when a worker is free."""
        batch = _Batch(steps, probes)
        self._todo.put(batch)
        if len(self._threads) < self.cpus:
            name = f"local-worker_{len(self._threads)}"
            # A thread that runs batches itself must end before the interpreter does.
            thread = threading.Thread(target=self._work, name=name, daemon=not self._in_threads)
            self._threads.append(thread)
            thread.start()
        return batch

    def stop(self, batch: _Batch, *, force: bool) -> None:
        """Take a batch that waits out of the queue; interrupt one that runs, or kill its process.

        A batch that a thread runs itself continues to its end.
        """
        with self._lock:  # the process must not continue with another batch meanwhile
            if not batch.has_begun:
                batch.has_begun = batch.has_ended = True
                self.ended.put(None)
            elif batch.process is not None:
                (batch.process.kill if force else batch.process.interrupt)()

    def close(self) -> None:
        """End all workers; what still runs after a moment is killed."""
        self._is_closed = True
        for _ in self._threads:
            self._todo.put(None)
        if self._in_threads:
            return
        _wait_until(lambda: not self._running, self.ended, CLOSE_SECONDS)
        for batch in list(self._running):
            self.stop(batch, force=True)
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)
        for process in self._idle:
            process.close()

    def _work(self) -> None:
        """Run batches until the session ends."""
        while (batch := self._todo.get()) is not None:
            with self._lock:
                is_left_out = batch.has_begun or self._is_closed
                batch.has_begun = True
            if not is_left_out:
                self._run(batch)

    def _run(self, batch: _Batch) -> None:
        self._running.add(batch)
        try:
            if self._in_threads:
                batch.outcome = run_batch(batch.steps, batch.probes)
            else:
                with self._process_for(batch) as process:
                    batch.outcome = process.run(batch.steps, batch.probes)
        except BaseException as error:
            batch.outcome = error
        finally:
            self._running.discard(batch)
            batch.has_ended = True
            self.ended.put(None)

    @contextmanager
    def _process_for(self, batch: _Batch) -> Iterator[WorkerProcess]:
        """Assign a process to a batch while the block runs."""
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = WorkerProcess()
        batch.process = process
        try:
            yield process
        finally:
            with self._lock:
                batch.process = None
            if process.is_alive:
                self._idle.append(process)
            else:
                process.close()


def _wait_until(is_over: Callable[[], bool], ended: "SimpleQueue[None]", seconds: float) -> None:
    """Wait for ended batches until a condition is true or the time is over."""
    end = time.monotonic() + seconds
    while not is_over() and (left := end - time.monotonic()) > 0:
        with suppress(Empty):
            ended.get(timeout=left)


class LocalWorkerPool:
    """The workers of a session as the scheduler sees them; see `WorkerPool`."""

    def __init__(self, workers: LocalWorkers, probes: Sequence[Probe]) -> None:
        """Let the workers check these probes at the beginning of each batch."""
        self._workers = workers
        self._probes = probes

    def now(self) -> float:
        """Return the time of this machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def resources(self) -> ClusterResources:
        """Return the CPUs of the session; memory is not assigned to batches."""
        cpus = self._workers.cpus
        return ClusterResources(cpus=cpus, node_cpus=cpus, node_memory=0)

    def free_cpus(self) -> int:
        """Return the number of workers that have no batch."""
        return self._workers.cpus - self._workers.num_running

    def submit(
        self,
        name: str,
        steps: Sequence[Step],
        *,
        resources: ClusterResources,
        memory_level: int,
        spread: bool,
        avoid: Collection[str],
    ) -> Reference:
        """Put a batch into the queue of the workers."""
        del name, resources, memory_level, spread, avoid
        return self._workers.submit(steps, self._probes)

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Wait for batches."""
        batches = [reference for reference in references if isinstance(reference, _Batch)]

        def has_enough() -> bool:
            return sum(batch.has_ended for batch in batches) >= number

        _wait_until(has_enough, self._workers.ended, seconds)
        ended: list[Reference] = [batch for batch in batches if batch.has_ended]
        return ended[:number]

    def results(self, reference: Reference, number: int) -> Sequence[AttemptResult]:
        """Return the results of a batch, or the failure that the death of its process means."""
        assert isinstance(reference, _Batch)
        outcome = reference.outcome
        if isinstance(outcome, list):
            return outcome
        if isinstance(outcome, WorkerDiedError):
            failure = Failure(Cause.WORKER, str(outcome))
        elif isinstance(outcome, Exception):  # of the batch as a whole
            failure = batch_failure(outcome, f"{type(outcome).__name__}: {outcome}")
        else:
            raise outcome
        return [AttemptResult(failure=failure)] * number

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Interrupt batches that have not ended, or with force kill their processes."""
        for reference in list(references):
            assert isinstance(reference, _Batch)
            self._workers.stop(reference, force=force)


class LocalExecutor(Executor):
    """Runs tasks in worker processes of this machine, or in threads of this process."""

    name = "local"

    def __init__(self, *, in_threads: bool = False) -> None:
        """Choose processes or threads.

        Threads need no start, and suit short tasks. They cannot be stopped: a task that hangs or
        crashes takes the whole process with it.
        """
        self._in_threads = in_threads
        self._workers: LocalWorkers | None = None

    @contextmanager
    def session(
        self, *, cpus: int | None = None, shared: Collection[Shared] = ()
    ) -> Iterator[None]:
        """Start workers as they are needed, and end them at the end of the outermost session.

        Raises:
            Terminated: SIGTERM came.
        """
        del shared  # there is one machine
        if self._workers is not None:
            yield
            return
        with terminable():
            self._workers = LocalWorkers(cpus or default_threads(), in_threads=self._in_threads)
            try:
                yield
            finally:
                self._workers.close()
                self._workers = None

    def pool(self, probes: Sequence[Probe]) -> LocalWorkerPool:
        """Return the workers of the session."""
        assert self._workers is not None, "tasks run inside a session"
        return LocalWorkerPool(self._workers, probes)

    def learn(
        self, training: Training, summed: WeightedCounts, out: Folder, *, on_event: OnEvent
    ) -> Tokenizer:
        """Run the learner in this process, whatever `[learner]` of the recipe asks for."""
        on_event(Note(text="the learner runs on this machine: [learner] is for Ray clusters"))
        return learn_tokenizer(training, summed, out, threads=default_threads(), on_event=on_event)
