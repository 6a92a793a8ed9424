"""Recording of the events of a job in its journal, its summary and the times of its stages."""

import json
import os
import platform
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

import nanotok_ray
from nanotok_ray import _core
from nanotok_ray.errors import LeaseLostError, NanotokError
from nanotok_ray.formats import (
    MAX_JSON_BYTES,
    SUMMARY_NAME,
    FailedRun,
    RunTimes,
    StageTime,
    from_values,
    to_json,
    to_values,
)
from nanotok_ray.job.events import (
    Advanced,
    AttemptFailed,
    ClusterSize,
    Event,
    Note,
    OnEvent,
    Planned,
    SliceEnded,
    StageEnded,
    StageStarted,
    ignore,
)
from nanotok_ray.job.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    JOURNAL_FORMAT,
    TERMINATED,
    RunEnd,
    RunHead,
    Stage,
    StageEndRow,
    StageProgressRow,
    journal_text,
    row_of,
)
from nanotok_ray.job.journal_writer import CLOSE_SECONDS, Journal
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from nanotok_ray.system import usable_cpus
from nanotok_ray.units import without_secrets

MAX_ATTEMPTS = 10_000
"""Failed attempts that are listed one by one; beyond that they are only counted."""


@dataclass(slots=True)
class JournalRows:
    """A converter of events to values of journal rows, with the state of earlier events."""

    attempts: Counter[str] = field(default_factory=Counter)
    """Failed attempts so far, by cause."""
    cluster: ClusterSize | None = None
    """The cluster of the last row."""
    _has_slices: bool = False
    """Whether a slice of the current stage has ended."""
    _done: int | None = None
    """The progress of the current stage without slices; None: there is none yet."""
    _percent: int | None = None
    """The percentage of its last row."""

    def of(self, event: Event, at: float) -> object | None:
        """Return the value of a row, or None if the journal does not list the event."""
        row: object | None = None
        match event:
            case SliceEnded():
                self._has_slices = True
                row = event
            case Planned() | Note():
                row = event
            case StageStarted(stage=stage, todo=todo, num_done=kept, num_bytes=num_bytes):
                self._has_slices, self._done, self._percent = False, None, None
                row = Stage(name=stage, todo=todo, kept=kept, num_bytes=num_bytes, at=at)
            case StageEnded(seconds=seconds, num_bytes=num_bytes):
                row = StageEndRow(seconds=seconds, num_bytes=num_bytes, done=self._done)
            case Advanced():
                row = self._progress(event)
            case AttemptFailed():
                row = event if self.attempts.total() < MAX_ATTEMPTS else None
                self.attempts[event.cause] += event.slices
            case ClusterSize() if self.cluster not in {None, event}:
                self.cluster = row = event
        return row

    def _progress(self, event: Advanced) -> StageProgressRow | None:
        """Return a progress row of a stage without slices, at most one for each percent."""
        if event.running > 0 or self._has_slices:  # the rows of slices contain it
            return None
        percent, last = 100 * event.done // max(event.todo, 1), self._percent
        self._done, self._percent = event.done, percent
        return None if percent == last else StageProgressRow(done=event.done, todo=event.todo)


def run_head(recipe: Recipe, command: str, executor: str, *, run: int, began: float) -> RunHead:
    """Return the first row of a run: its command, its start, its machine and its versions."""
    head = RunHead(
        format=JOURNAL_FORMAT,
        run=run,
        command=command,
        arguments=without_secrets(shlex.join(sys.argv)),
        started=iso(began),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=nanotok_ray.__version__,
        core=_core.cpu_level(),
        executor=executor,
        python=platform.python_version(),
        ray_job="",
        ray="",
        cpus=usable_cpus(),
        nodes=1,
        recipe=without_secrets(recipe.text),
        work=without_secrets(recipe.output.work),
    )
    return _with_ray(head)


def iso(at: float) -> str:
    """Return a time in seconds since 1970 in ISO 8601 format, in UTC."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="seconds")


def _with_ray(head: RunHead) -> RunHead:
    """Return the head with Ray's version, job, CPUs and nodes, if the run uses Ray."""
    ray = sys.modules.get("ray")  # the session imports it
    with suppress(Exception):  # Ray need not answer
        if ray is not None and ray.is_initialized():
            alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            return replace(
                head,
                ray_job=ray.get_runtime_context().get_job_id(),
                ray=ray.__version__,
                cpus=int(sum(resources.get("CPU", 0) for resources in alive)),
                nodes=len(alive),
            )
    return head


LEAVE_SECONDS = 1.0
"""Seconds that a terminated run waits for its journal: `ray job stop` kills it after 3 s."""

FAIL_SECONDS = 5.0


class RunRecorder:
    """The listener of a run, which keeps its journal and the times of its stages."""

    def __init__(
        self,
        recipe: Recipe,
        command: str,
        executor: str = "",
        *,
        on_event: OnEvent = ignore,
        metrics: OnEvent = ignore,
    ) -> None:
        """Create the listener; events before the lease are held until the journal begins.

        Args:
            recipe: The recipe of the run.
            command: prepare, train or tokenize.
            executor: The name of the executor.
            on_event: Called with every event.
            metrics: Records the metrics of the run.
        """
        self.on_event, self.check = on_event, ignore
        """`check` raises an error if the run must not continue; it is called last."""
        self.stages: dict[str, tuple[float, int]] = {}
        """Seconds and bytes of each stage that has ended."""
        self._recipe, self._command, self._executor = recipe, command, executor
        self._metrics = metrics
        self._out = Folder(recipe.output.path)
        self._rows = JournalRows()
        self._waiting: list[object] = []
        self._journal: Journal | None = None
        self._began = 0.0
        self._seconds: float | None = None
        self._earlier: Mapping[str, StageTime] = {}

    def __call__(self, event: Event) -> None:
        """Pass one event to the journal, the metrics, the listener and the check, in this order."""
        if isinstance(event, StageEnded):
            seconds, size = self.stages.get(event.stage, (0.0, 0))
            self.stages[event.stage] = (seconds + event.seconds, size + event.num_bytes)
        at = _now()
        row = self._rows.of(event, at)
        if row is not None:
            self._add(row_of(row, at), soon=isinstance(event, StageStarted))
        self._metrics(event)
        self.on_event(event)
        self.check(event)

    def begin(self, run: int) -> None:
        """Begin the journal; `run` is the number of the lease."""
        self._began = time.time()
        self._earlier = stages_of_last_run(self._out)
        head = run_head(self._recipe, self._command, self._executor, run=run, began=self._began)
        assert head.cpus is not None
        assert head.nodes is not None
        self._rows.cluster = ClusterSize(cpus=head.cpus, nodes=head.nodes)
        self._journal = Journal(self._out, run)
        for row in (row_of(head, _now()), *self._waiting):
            self._journal.add(row)
        self._journal.begin()

    def failed(self, error: BaseException) -> None:
        """Record that the run ended with an error. Call this while the lease is held."""
        self._seconds = None  # the run continued after an earlier call of `times`
        status, why = _status(error)
        text = journal_text(why)
        files = {}
        if not isinstance(error, LeaseLostError):
            files[SUMMARY_NAME] = self._summary(status, text)
        self._end(
            status, text, seconds=FAIL_SECONDS if status == FAILED else LEAVE_SECONDS, files=files
        )

    def done(self) -> None:
        """Record that the run is done."""
        self._end(DONE)

    def times(self) -> RunTimes:
        """Return number, start and seconds of the run, and failed attempts by cause.

        The seconds are measured at the first call, so that summary and journal agree.
        """
        if self._journal is None:
            return RunTimes()
        if self._seconds is None:
            self._seconds = round(time.time() - self._began, 3)
        return RunTimes(
            run=self._journal.run,
            started=iso(self._began),
            seconds=self._seconds,
            failed_attempts=dict(sorted(self._rows.attempts.items())),
        )

    def _end(
        self,
        status: str,
        error: str | None = None,
        *,
        seconds: float = CLOSE_SECONDS,
        files: Mapping[str, bytes] = {},
    ) -> None:
        if self._journal is None:
            return
        at, times = _now(), self.times()
        end = RunEnd(
            at=at,
            status=status,
            error=error,
            seconds=times.seconds,
            failed_attempts=times.failed_attempts,
        )
        self._add(row_of(end, at))
        problem = self._journal.close(seconds=seconds, last_files=files)
        if problem is not None:
            self.on_event(Note(text=problem))

    def _summary(self, status: str, error: str) -> bytes:
        """Return the contents of the summary file of a failed run."""
        stages = {
            name: StageTime(seconds=round(seconds, 3), bytes=size)
            for name, (seconds, size) in self.stages.items()
        }
        run = FailedRun(
            status=status,
            output=self._out.url,
            stages=stages,
            error=error,
            earlier_stages=self._earlier,
        )
        return to_json({**to_values(run), **to_values(self.times())})

    def _add(self, row: object, *, soon: bool = False) -> None:
        if self._journal is None:
            self._waiting.append(row)
        else:
            self._journal.add(row, soon=soon)


def _now() -> float:
    return round(time.time(), 3)


def stages_of_last_run(out: Folder) -> dict[str, StageTime]:
    """Return seconds and bytes of the last complete run of each stage; empty if unknown.

    A failed run keeps the values of the runs before it in its summary, so that they are not lost.
    """
    times: dict[str, StageTime] = {}
    with suppress(OSError, NanotokError, ValueError, RecursionError):  # they are only for display
        values = json.loads(out.read_bytes(SUMMARY_NAME, limit=MAX_JSON_BYTES))
        for name in ("earlier_stages", "stages"):
            if isinstance(values, dict) and name in values:
                times |= from_values(dict[str, StageTime], values[name], name=SUMMARY_NAME)
    return times


def _status(error: BaseException) -> tuple[str, str]:
    """Return the status with which a run ended, and the reason."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "by Ctrl-C"
    if isinstance(error, SystemExit):  # Terminated is a subclass, and Ray raises others for SIGTERM
        return TERMINATED, "by SIGTERM"
    return FAILED, str(error) or type(error).__name__
