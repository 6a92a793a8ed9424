"""A job on a job server: its log, following it, and the meaning of its end."""

import json
import math
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nanotok_ray.cluster.submit.submission import FAILED, STOPPED, Connection, JobState
from nanotok_ray.errors import UnreachableError
from nanotok_ray.formats import MANIFEST_NAME, TOKENIZER_FOLDER, local_path
from nanotok_ray.job.lease import Clock
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME

LAST_LINES = 30
"""The number of lines that are kept for the message about a failed job."""

MAX_NEW_LINES = 1000
"""The largest number of lines that one read returns; older ones are dropped."""


READ_PAUSES, MAX_READ_PAUSE = 10.0, 60.0
"""A log that takes long to read is read less often: the pause is this multiple of the last read."""

LAST_SECONDS, LAST_PAUSE = 3.0, 1.0
"""Seconds for which reading the last lines of an ended job is retried, and between the tries."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The summary that a job prints as its last line."""

    status: str
    output: str | None
    values: object
    """All of its JSON."""


class JobLog:
    r"""The log of one job, from a function that returns all of it.

    >>> log = JobLog(iter(['count: 1 of 9\nco', 'count: 1 of 9\ncount: 2 of 9\n']).__next__)
    >>> log.read(), log.read()
    (['count: 1 of 9'], ['count: 2 of 9'])
    """

    def __init__(
        self,
        fetch: Callable[[], str],
        *,
        show: Callable[[str], None] = print,
        clock: Clock | None = None,
    ) -> None:
        """Create the log.

        Args:
            fetch: returns the whole log; raises UnreachableError without an answer.
            show: called with each line that is shown.
            clock: the clock; None: that of this machine.
        """
        self._fetch = fetch
        self._show = show
        self._clock = clock or Clock(now=time.monotonic)
        self._next_read = 0.0
        self._num_seen = 0  # characters
        self._rest = ""  # an incomplete line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._summary: JobSummary | None = None

    def read(self) -> list[str] | None:
        """Return the lines completed since the last read; None if the log cannot be fetched."""
        try:
            text = self._fetch()
        except UnreachableError:
            return None
        *ended, self._rest = (self._rest + text[self._num_seen :]).split("\n")
        self._num_seen = max(self._num_seen, len(text))
        lines = [line.expandtabs() for line in ended]
        self._last.extend(lines)
        for line in lines:
            self._summary = _summary(line) or self._summary
        return lines[-MAX_NEW_LINES:]

    def show_new(self) -> None:
        """Show the new lines, unless the last read took long and was a moment ago."""
        if self._clock.now() >= self._next_read:
            self._read_and_show()

    def show_last(self) -> None:
        """Show the last lines of an ended job; reading them is retried for a short time."""
        deadline = self._clock.now() + LAST_SECONDS
        while not self._read_and_show() and self._clock.now() < deadline:
            self._clock.sleep(LAST_PAUSE)

    def _read_and_show(self) -> bool:
        start = self._clock.now()
        lines = self.read()
        end = self._clock.now()
        self._next_read = end + min(READ_PAUSES * (end - start), MAX_READ_PAUSE)
        for line in lines or ():
            self._show(line)
        return lines is not None

    @property
    def last(self) -> list[str]:
        """The last lines, including an incomplete one."""
        return [*self._last, *([self._rest] if self._rest else [])]

    @property
    def summary(self) -> JobSummary | None:
        """The last line that is a JSON object with a status: the job's own summary."""
        return _summary(self._rest) or self._summary


def _summary(line: str) -> JobSummary | None:
    if not line.startswith("{"):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not isinstance(values.get("status"), str):
        return None
    output = values.get("output")
    return JobSummary(values["status"], None if output is None else str(output), values)


FIRST_PAUSES, FIRST_SECONDS, PAUSE = 1.0, 60.0, 5.0
"""Seconds between requests: in the first seconds of following, and later. The log is read after
each request that the job server answered.
"""

MAX_UNKNOWN = 2
"""The number of answers in a row without the job after which it is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowedJob:
    """The result of following a job."""

    state: JobState | None
    """The last known state of the job; None if it is unknown."""
    lost: Literal["", "timeout", "gone", "lost"] = ""
    """Whether following ended before the job: because of the time limit, because the job server
    answers and has no such job, or because it does not answer.
    """
    reason: str = ""
    """Why it did."""


def follow(
    connection: Connection, submission_id: str, log: JobLog, *, timeout: float | None
) -> FollowedJob:
    """Follow a job until it ends, or until the limits are reached; `timeout` is in seconds."""
    jobs, clock, began = connection.jobs, connection.clock, connection.clock.now()
    connection.end = math.inf if timeout is None else began + timeout
    state, num_unknown = None, 0

    def pause() -> float:
        return FIRST_PAUSES if clock.now() - began < FIRST_SECONDS else PAUSE

    try:
        while num_unknown < MAX_UNKNOWN:
            answer = connection.ask(lambda: jobs.state(submission_id), pause)
            if answer is None:
                num_unknown = 1 if connection.was_silent else num_unknown + 1
            else:
                state, num_unknown = answer, 0
                if state.has_ended:
                    log.show_last()
                    return FollowedJob(state=state)
                log.show_new()
            if num_unknown < MAX_UNKNOWN:
                connection.sleep(pause())
    except TimeoutError:
        text = f"the time limit of {timeout:g} s (--timeout) has passed"
        return FollowedJob(state=state, lost="timeout", reason=text)
    except UnreachableError as error:
        text = f"no answer about the job for {connection.patience:g} s (--patience): {error}"
        return FollowedJob(state=state, lost="lost", reason=text)
    text = (
        "the job server answers and has no job of this id: its head was restarted, which ends "
        "all jobs, or another cluster has its address"
    )
    return FollowedJob(state=None, lost="gone", reason=text)


STOPPED_CODE = 7
"""The exit code for a stopped job."""

UNFINISHED_CODE = 4
KILLED_CODE = 5
_SHELL_SIGNALS = 128
"""A shell adds the number of the signal to this value."""
_EXIT_CODES = frozenset({1, 2, 3, 4, 5, 6, 130, 143})
"""Exit codes of a driver with a specific meaning."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """The result of a job."""

    status: str
    """`done`, `unchanged`, `failed`, `stopped` or `unfinished`."""
    exit_code: int
    message: str
    """One sentence for people."""


def ending_of(state: JobState, *, summary: JobSummary | None, job: str, output: str) -> Ending:
    """Return the result of a job.

    Args:
        state: its final state.
        summary: the last line of its stdout, if it was read.
        job: prepare, train or tokenize.
        output: its output folder, a path or URL, if it is known here.
    """
    if state.status == STOPPED:
        return Ending(status="stopped", exit_code=STOPPED_CODE, message="the job was stopped")
    if state.status == FAILED:
        text = f"the job failed{_of_driver(state)}"
        return Ending(status="failed", exit_code=_failed_code(state.exit_code), message=text)
    if summary is None:
        return _succeeded(output, last_file(job), None)
    return _succeeded(summary.output or output, last_file(job), summary.status)


def _failed_code(exit_code: int | None) -> int:
    """Return the exit code for a failed job from that of its driver; 5 if a signal killed it.

    >>> _failed_code(3), _failed_code(None), _failed_code(-9), _failed_code(137)
    (3, 1, 5, 5)
    """
    if exit_code in _EXIT_CODES:
        return exit_code
    is_killed = exit_code is not None and (exit_code < 0 or exit_code > _SHELL_SIGNALS)
    return KILLED_CODE if is_killed else 1


def _of_driver(state: JobState) -> str:
    """Return a description of the driver's end.

    >>> _of_driver(JobState(status="FAILED", exit_code=3))
    '; its driver ended with exit code 3'
    >>> _of_driver(JobState(status="FAILED", exit_code=-9))
    '; its driver was killed by SIGKILL: the same command resumes from there'
    """
    if state.exit_code is None:
        return ""
    if state.exit_code >= 0:
        return f"; its driver ended with exit code {state.exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-state.exit_code).name
        return f"; its driver was killed by {name}: the same command resumes from there"
    return f"; its driver was killed by signal {-state.exit_code}"


def _succeeded(output: str, name: str, job_status: str | None) -> Ending:
    says_done = job_status in {"done", "unchanged"}
    status = str(job_status) if says_done else "done"
    try:
        is_there = _is_there(output, name)
        text = f"{output} is not a folder on this machine"
    except Exception as error:  # of any store's class: the file cannot be seen from here
        is_there, text = None, f"{output} cannot be read from here ({error})"
    if is_there:
        return Ending(status=status, exit_code=0, message=f"the job succeeded: {output}")
    if is_there is None and says_done:
        return Ending(
            status=status,
            exit_code=0,
            message=f"the job succeeded; {text}, so the job's own result is used",
        )
    reason = f"there is no {output}/{name}" if is_there is False else f"{text}, its log neither"
    return Ending(
        status="unfinished",
        exit_code=UNFINISHED_CODE,
        message=f"the job says that it succeeded, but {reason}: run `nanotok verify {output}` "
        "where the output is",
    )


def last_file(job: str) -> str:
    """Return the name of the file that a job writes last.

    >>> last_file("prepare"), last_file("train")
    ('manifest.json', 'tokenizer/tokenizer.txt')
    """
    return f"{TOKENIZER_FOLDER}/{READABLE_NAME}" if job == "train" else MANIFEST_NAME


def _is_there(output: str, name: str) -> bool | None:
    """Return whether a file exists, or None if this machine does not have the folder."""
    path = local_path(output)
    if path is not None and not Path(path).is_dir():
        return None
    return Folder(output).exists(name)
