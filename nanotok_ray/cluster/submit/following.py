"""A job on a job server: its log, following it, and the meaning of its end."""

import json
import math
import signal
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ray.job_submission import JobDetails, JobStatus

from nanotok_ray.cluster.submit.job_server import PAUSE, JobServer, job_of
from nanotok_ray.cluster.submit.shipping import Submission
from nanotok_ray.errors import UnreachableError
from nanotok_ray.formats import local_path
from nanotok_ray.storage import Folder

LAST_LINES = 30
"""The number of lines that are kept for the message about a failed job."""

MAX_NEW_LINES = 1000
"""The largest number of lines that one update shows; older ones are dropped."""

LAST_SECONDS, LAST_PAUSE = 3.0, 1.0
"""Seconds for which reading the last lines of an ended job is retried, and between the tries."""

MAX_UNKNOWN = 2
"""The number of answers in a row without the job after which it is gone."""

STOPPED_CODE = 7
"""The exit code for a stopped job."""

Summary = Mapping[str, object]
"""The JSON object that a job prints as its last line; its `status` is a string."""

UNFINISHED_CODE = 4
UNREACHABLE_CODE = KILLED_CODE = 5
_SHELL_SIGNALS = 128
"""A shell adds the number of the signal to this value."""
_EXIT_CODES = frozenset({1, 2, 3, 4, 5, 6, 130, 143})
"""Exit codes of a driver with a specific meaning."""


class JobLog:
    r"""The log of one job, from all of its text so far.

    >>> log = JobLog(print)
    >>> log.update('count: 1 of 9\nco'), log.update('count: 1 of 9\ncount: 2 of 9\n')
    count: 1 of 9
    count: 2 of 9
    (None, None)
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        """Create the log; `show` is called once with each line."""
        self._show = show
        self._num_seen = 0  # characters
        self._rest = ""  # an incomplete line
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._summary: Summary | None = None

    def update(self, text: str) -> None:
        """Show the lines that were completed since the last update."""
        *lines, self._rest = (self._rest + text[self._num_seen :]).split("\n")
        self._num_seen = max(self._num_seen, len(text))
        lines = [line.expandtabs() for line in lines]
        self._last.extend(lines)
        for line in lines:
            self._summary = _summary(line) or self._summary
        for line in lines[-MAX_NEW_LINES:]:
            self._show(line)

    @property
    def last(self) -> list[str]:
        """The last lines, including an incomplete one."""
        return [*self._last, *([self._rest] if self._rest else [])]

    @property
    def summary(self) -> Summary | None:
        """The last line that is a JSON object with a status: the job's own summary."""
        return _summary(self._rest) or self._summary


def _summary(line: str) -> Summary | None:
    if not line.startswith("{"):
        return None
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_summary = isinstance(values, dict) and isinstance(values.get("status"), str)
    return values if is_summary else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """Why following a job ended."""

    status: str
    """`done`, `unchanged`, `failed`, `stopped` or `unfinished`; or, before the job's end, `timeout`
    (the time limit), `gone` (the job server has no such job) or `lost` (it does not answer).
    """
    exit_code: int
    message: str
    """One sentence for people."""
    job: JobDetails | None = None
    """The last known state of the job; None if it is unknown."""


def follow(
    server: JobServer,
    submission_id: str,
    submission: Submission,
    log: JobLog,
    *,
    timeout: float | None,
) -> Ending:
    """Follow a job until it ends, or until the limits are reached; `timeout` is in seconds."""
    server.end = math.inf if timeout is None else server.clock.now() + timeout
    job, num_unknown = None, 0
    try:
        while num_unknown < MAX_UNKNOWN:
            answer = server.ask(lambda client: job_of(client, submission_id))
            if answer is None:
                num_unknown = 1 if server.was_silent else num_unknown + 1
            else:
                job, num_unknown = answer, 0
                if job.status.is_terminal():
                    _read_last(server, submission_id, log)
                    return ending_of(job, log.summary, submission)
                _read(server, submission_id, log)
            server.sleep(PAUSE)
    except TimeoutError:
        return _lost("timeout", f"the time limit of {timeout:g} s (--timeout) has passed", job)
    except UnreachableError as error:
        text = f"no answer about the job for {server.patience:g} s (--patience): {error}"
        return _lost("lost", text, job)
    text = (
        "the job server answers and has no job of this id: its head was restarted, which ends "
        "all jobs, or another cluster has its address"
    )
    return _lost("gone", text, None)


def _lost(status: str, text: str, job: JobDetails | None) -> Ending:
    return Ending(status=status, exit_code=UNREACHABLE_CODE, message=text, job=job)


def _read(server: JobServer, submission_id: str, log: JobLog) -> bool:
    """Show the new lines of a job; return whether its log could be read."""
    try:
        log.update(server.ask_once(lambda client: str(client.get_job_logs(submission_id))))
    except UnreachableError:
        return False
    return True


def _read_last(server: JobServer, submission_id: str, log: JobLog) -> None:
    """Show the last lines of an ended job; reading them is retried for a short time."""
    deadline = server.clock.now() + LAST_SECONDS
    while not _read(server, submission_id, log) and server.clock.now() < deadline:
        server.clock.sleep(LAST_PAUSE)


def ending_of(job: JobDetails, summary: Summary | None, submission: Submission) -> Ending:
    """Return the result of an ended job; `summary` is the last line of its stdout, if read."""
    if job.status == JobStatus.STOPPED:
        text = "the job was stopped"
        return Ending(status="stopped", exit_code=STOPPED_CODE, message=text, job=job)
    if job.status == JobStatus.FAILED:
        code = job.driver_exit_code
        text = f"the job failed{_of_driver(code)}"
        return Ending(status="failed", exit_code=_failed_code(code), message=text, job=job)
    return _succeeded(job, summary, submission)


def _failed_code(exit_code: int | None) -> int:
    """Return the exit code for a failed job from that of its driver; 5 if a signal killed it.

    >>> _failed_code(3), _failed_code(None), _failed_code(-9), _failed_code(137)
    (3, 1, 5, 5)
    """
    if exit_code in _EXIT_CODES:
        return exit_code
    is_killed = exit_code is not None and (exit_code < 0 or exit_code > _SHELL_SIGNALS)
    return KILLED_CODE if is_killed else 1


def _of_driver(exit_code: int | None) -> str:
    """Return a description of the driver's end.

    >>> _of_driver(3)
    '; its driver ended with exit code 3'
    >>> _of_driver(-9)
    '; its driver was killed by SIGKILL: the same command resumes from there'
    """
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return f"; its driver ended with exit code {exit_code}"
    name = f"signal {-exit_code}"
    with suppress(ValueError):
        name = signal.Signals(-exit_code).name
    return f"; its driver was killed by {name}: the same command resumes from there"


def _succeeded(job: JobDetails, summary: Summary | None, submission: Submission) -> Ending:
    summary = summary or {}
    output = str(summary.get("output") or submission.output)
    says_done = summary.get("status") in {"done", "unchanged"}
    status = str(summary["status"]) if says_done else "done"
    try:
        is_there = _is_there(output, submission.last_file)
        text = f"{output} is not a folder on this machine"
    except Exception as error:  # of any store's class: the file cannot be seen from here
        is_there, text = None, f"{output} cannot be read from here ({error})"
    if is_there:
        text = f"the job succeeded: {output}"
        return Ending(status=status, exit_code=0, message=text, job=job)
    if is_there is None and says_done:
        text = f"the job succeeded; {text}, so the job's own result is used"
        return Ending(status=status, exit_code=0, message=text, job=job)
    missing = f"there is no {output}/{submission.last_file}"
    reason = missing if is_there is False else f"{text}, its log neither"
    return Ending(
        status="unfinished",
        exit_code=UNFINISHED_CODE,
        message=f"the job says that it succeeded, but {reason}: run `nanotok verify {output}` "
        "where the output is",
        job=job,
    )


def _is_there(output: str, name: str) -> bool | None:
    """Return whether a file exists, or None if this machine does not have the folder."""
    path = local_path(output)
    if path is not None and not Path(path).is_dir():
        return None
    return Folder(output).exists(name)
