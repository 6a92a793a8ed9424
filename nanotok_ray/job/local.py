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
from nanotok_ray.job.probes import Required, Shared
from nanotok_ray.job.reducing import WeightedCounts
from nanotok_ray.job.task import AttemptResult, Cause, Failure
from nanotok_ray.job.termination import terminable
from nanotok_ray.job.training import learn_tokenizer
from nanotok_ray.job.worker_pool import (
    Call,
    ClusterResources,
    Reference,
    call_failure,
    run_attempt,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

CLOSE_SECONDS = 2.0
"""How long an idle worker may take to end before it is killed."""


class WorkerDiedError(Exception):
    """A worker process ended in the middle of a call."""


class WorkerProcess:
    """A process of this machine that runs calls for one thread of the driver."""

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

    def run(self, call: Call, probes: Sequence[Required]) -> AttemptResult:
        """Run a call and return its outcome.

        Raises:
            WorkerDiedError: The process ended before it replied.
            BaseException: What was raised outside of the task.
        """
        message = pickle.dumps((call.work, call.argument, probes))
        try:
            self._connection.send_bytes(message)
            reply = self._connection.recv_bytes()
        except (EOFError, ConnectionError) as error:
            raise WorkerDiedError(_ending(self._process.wait())) from error
        is_run, value = pickle.loads(reply)  # noqa: S301 - from a process that this one started
        if not is_run:
            raise value
        result: AttemptResult = value
        return result

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the call that runs."""
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


class _Submitted:
    """A call that was submitted; its identity is the reference that the runner holds."""

    def __init__(self, call: Call, probes: Sequence[Required]) -> None:
        self.call, self.probes = call, probes
        self.process: WorkerProcess | None = None
        """The process that runs it now; None: none does."""
        self.has_begun = self.has_ended = False
        self.outcome: AttemptResult | BaseException | None = None
        """The outcome of the task, or what was raised outside of it; None: it has not ended."""


class LocalWorkerPool:
    """The workers of a session: threads of the driver, each with a process while it has a call.

    A signal can raise in the main thread at any call, also directly after a lock of Python code,
    such as that of a future or an event, was acquired; a worker would then wait for it forever. The
    main thread therefore shares only locks and queues with the workers that are written in C.
    """

    def __init__(self, cpus: int, *, in_threads: bool) -> None:
        """Start nothing; threads and processes start with the first calls.

        Args:
            cpus: The number of calls that run at the same time.
            in_threads: Whether the threads run the calls themselves.
        """
        self.probes: Sequence[Required] = ()
        """What workers check at the beginning of each call."""
        self._cpus = cpus
        self._ended: SimpleQueue[None] = SimpleQueue()
        """An entry for each call that has ended."""
        self._in_threads = in_threads
        self._threads: list[threading.Thread] = []
        self._todo: SimpleQueue[_Submitted | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._running: set[_Submitted] = set()
        self._is_closed = False

    def now(self) -> float:
        """Return the time of this machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def resources(self) -> ClusterResources:
        """Return the CPUs of the session; memory is not assigned to calls."""
        return ClusterResources(cpus=self._cpus, node_cpus=self._cpus, node_memory=0)

    def free_cpus(self) -> int:
        """Return the number of workers that have no call."""
        return self._cpus - len(self._running)

    def submit(self, call: Call) -> Reference:
        """Run a call when a worker is free."""
        submitted = _Submitted(call, self.probes)
        self._todo.put(submitted)
        if len(self._threads) < self._cpus:
            name = f"local-worker_{len(self._threads)}"
            # A thread that runs calls itself must end before the interpreter does.
            thread = threading.Thread(target=self._work, name=name, daemon=not self._in_threads)
            self._threads.append(thread)
            thread.start()
        return submitted

    def wait(
        self, references: Collection[Reference], number: int, seconds: float
    ) -> list[Reference]:
        """Wait for calls."""
        calls = [reference for reference in references if isinstance(reference, _Submitted)]

        def has_enough() -> bool:
            return sum(call.has_ended for call in calls) >= number

        _wait_until(has_enough, self._ended, seconds)
        ended: list[Reference] = [call for call in calls if call.has_ended]
        return ended[:number]

    def result(self, reference: Reference) -> AttemptResult:
        """Return the outcome of a call, or the failure that the death of its process means."""
        assert isinstance(reference, _Submitted)
        outcome = reference.outcome
        if isinstance(outcome, AttemptResult):
            return outcome
        if isinstance(outcome, WorkerDiedError):
            return AttemptResult(failure=Failure(Cause.WORKER, str(outcome)))
        if isinstance(outcome, Exception):  # outside of the task
            failure = call_failure(outcome, f"{type(outcome).__name__}: {outcome}")
            return AttemptResult(failure=failure)
        assert outcome is not None, "the call has ended"
        raise outcome

    def cancel(self, references: Collection[Reference], *, force: bool = False) -> None:
        """Take calls that wait out of the queue; interrupt those that run, or kill their processes.

        A call that a thread runs itself continues to its end.
        """
        for reference in list(references):
            assert isinstance(reference, _Submitted)
            self._stop(reference, force=force)

    def close(self) -> None:
        """End all workers; what still runs after a moment is killed."""
        self._is_closed = True
        for _ in self._threads:
            self._todo.put(None)
        if self._in_threads:
            return
        _wait_until(lambda: not self._running, self._ended, CLOSE_SECONDS)
        for submitted in list(self._running):
            self._stop(submitted, force=True)
        for thread in self._threads:
            thread.join(CLOSE_SECONDS)
        for process in self._idle:
            process.close()

    def _stop(self, submitted: _Submitted, *, force: bool) -> None:
        with self._lock:  # the process must not continue with another call meanwhile
            if not submitted.has_begun:
                submitted.has_begun = submitted.has_ended = True
                self._ended.put(None)
            elif submitted.process is not None:
                (submitted.process.kill if force else submitted.process.interrupt)()

    def _work(self) -> None:
        """Run calls until the session ends."""
        while (submitted := self._todo.get()) is not None:
            with self._lock:
                is_left_out = submitted.has_begun or self._is_closed
                submitted.has_begun = True
            if not is_left_out:
                self._run(submitted)

    def _run(self, submitted: _Submitted) -> None:
        self._running.add(submitted)
        call, probes = submitted.call, submitted.probes
        try:
            if self._in_threads:
                submitted.outcome = run_attempt(call.work, call.argument, probes)
            else:
                with self._process_for(submitted) as process:
                    submitted.outcome = process.run(call, probes)
        except BaseException as error:
            submitted.outcome = error
        finally:
            self._running.discard(submitted)
            submitted.has_ended = True
            self._ended.put(None)

    @contextmanager
    def _process_for(self, submitted: _Submitted) -> Iterator[WorkerProcess]:
        """Assign a process to a call while the block runs."""
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            process = WorkerProcess()
        submitted.process = process
        try:
            yield process
        finally:
            with self._lock:
                submitted.process = None
            if process.is_alive:
                self._idle.append(process)
            else:
                process.close()


def _wait_until(is_over: Callable[[], bool], ended: "SimpleQueue[None]", seconds: float) -> None:
    """Wait for ended calls until a condition is true or the time is over."""
    end = time.monotonic() + seconds
    while not is_over() and (left := end - time.monotonic()) > 0:
        with suppress(Empty):
            ended.get(timeout=left)


class LocalExecutor(Executor):
    """Runs tasks in worker processes of this machine, or in threads of this process."""

    name = "local"

    def __init__(self, *, in_threads: bool = False) -> None:
        """Choose processes or threads.

        Threads need no start, and suit short tasks. They cannot be stopped: a task that hangs or
        crashes takes the whole process with it.
        """
        self._in_threads = in_threads
        self._workers: LocalWorkerPool | None = None

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
            self._workers = LocalWorkerPool(cpus or default_threads(), in_threads=self._in_threads)
            try:
                yield
            finally:
                self._workers.close()
                self._workers = None

    def pool(self, probes: Sequence[Required]) -> LocalWorkerPool:
        """Return the workers of the session."""
        assert self._workers is not None, "tasks run inside a session"
        self._workers.probes = probes
        return self._workers

    def learn(
        self, training: Training, summed: WeightedCounts, out: Folder, *, on_event: OnEvent
    ) -> Tokenizer:
        """Run the learner in this process, whatever `[learner]` of the recipe asks for."""
        on_event(Note(text="the learner runs on this machine: [learner] is for Ray clusters"))
        return learn_tokenizer(training, summed, out, threads=default_threads(), on_event=on_event)
