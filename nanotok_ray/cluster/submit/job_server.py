"""A job server, asked through Ray's client, and again while it does not answer; starts a job once.

The input is the address of a dashboard. The module imports Ray, so import it where it is needed.
"""

import logging
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobSubmissionClient

from nanotok_ray.cluster.session import ACCESS, first_line
from nanotok_ray.cluster.submit.shipping import Submission
from nanotok_ray.errors import RefusedError, UnreachableError
from nanotok_ray.job.doctor.ray_settings import NO_SERVER, check_token
from nanotok_ray.job.lease import Clock

ANSWER_SECONDS = 60.0
"""Time limit of an answer; Ray's own client waits forever."""

PAUSE = 2.0
"""Seconds between requests."""

_DIGEST = "nanotok_submission"
_ADDRESS = "RAY_API_SERVER_ADDRESS"
_TALKATIVE = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
"""Loggers of Ray's client, whose lines would interrupt those of a job."""

_TROUBLE = (OSError, RuntimeError, ValueError, TypeError, LookupError)
"""Errors of Ray's client for a lost connection, an error of the server, or an unexpected answer."""

_ERRNO = re.compile(r"\[Errno \d+\] ([\w ]+)")
_MAX_CHARS = 300  # limit of the characters of a foreign error

A = TypeVar("A")


class TimedClient(JobSubmissionClient):  # type: ignore[misc]  # untyped
    """Ray's client of exactly this address, with a time limit for each answer."""

    def __init__(self, address: str) -> None:
        """Connect to the job server."""
        for name in _TALKATIVE:
            logging.getLogger(name).setLevel(logging.WARNING)
        with _environment(address):
            super().__init__(address)

    def _do_request(self, method: str, endpoint: str, **options: object) -> object:
        return super()._do_request(method, endpoint, **{"timeout": ANSWER_SECONDS, **options})


@contextmanager
def _environment(address: str) -> Iterator[None]:
    """Set the address in the environment during the block, since Ray prefers it."""
    former = os.environ.get(_ADDRESS)
    os.environ[_ADDRESS] = address
    try:
        yield
    finally:
        if former is None:
            del os.environ[_ADDRESS]
        else:
            os.environ[_ADDRESS] = former


@dataclass(kw_only=True, slots=True)
class JobServer:
    """The job server at an address, which is asked again while it does not answer.

    The first request connects. A time in which the machine is suspended does not count.
    """

    address: str
    """The URL of the dashboard."""
    first_patience: float
    """Seconds for which the server may not answer until it has answered once."""
    patience: float
    """Seconds for which it may not answer later."""
    on_message: Callable[[str], None]
    """Called with messages about the connection."""
    connect: Callable[[str], JobSubmissionClient] = TimedClient
    """Returns the client of an address."""
    clock: Clock = field(default_factory=lambda: Clock(now=time.monotonic))
    answered_at: float | None = None
    was_silent: bool = False
    """Whether the last answer came after requests without one."""
    end: float = math.inf
    """The time after which nothing is asked any more."""
    _client: JobSubmissionClient | None = None

    def ask(self, request: Callable[[JobSubmissionClient], A]) -> A:
        """Return what a request returns, which is repeated while there is no answer.

        Raises:
            RefusedError: The server has never answered, and refuses the request.
            UnreachableError: The server did not answer within the limit of patience.
            TimeoutError: The end is reached.
        """
        is_first = self.answered_at is None
        began = self.clock.now() if self.answered_at is None else self.answered_at
        patience = self.first_patience if is_first else self.patience
        self.was_silent = False
        while True:
            try:
                answer = self.ask_once(request)
            except UnreachableError as error:
                is_refused = is_first and isinstance(error, RefusedError)
                if is_refused or self.clock.now() - began >= patience:
                    raise
                if not self.was_silent:
                    self.on_message(f"{error}; trying again for {patience:g} s (--patience)")
                self.was_silent = True
            else:
                if self.was_silent and not is_first:
                    self.on_message("the job server answers again")
                self.answered_at = self.clock.now()
                return answer
            self.sleep(PAUSE)

    def ask_once(self, request: Callable[[JobSubmissionClient], A]) -> A:
        """Return what a request returns.

        Raises:
            RefusedError: The server requires another token, or refuses the request.
            UnreachableError: The server gave no answer, or an invalid one.
        """
        try:
            self._client = self._client or self.connect(self.address)
            return request(self._client)
        except UnreachableError:
            raise
        except AuthenticationError as error:
            token = check_token(is_remote=True).found
            text = f"{self.address} does not accept the token ({token}): {first_line(error)}"
            raise RefusedError(f"the job server at {text}; {ACCESS}") from error
        except _TROUBLE as error:
            text = f"no answer from the job server at {self.address}: {_last(error)}"
            if self._client is None:  # the server has never answered, so the address may be wrong
                text = f"{text}; {NO_SERVER}"
            raise UnreachableError(text) from error

    def sleep(self, seconds: float) -> None:
        """Sleep, at most until the end.

        Raises:
            TimeoutError: The end is reached.
        """
        left = self.end - self.clock.now()
        if left <= 0:
            raise TimeoutError
        self.clock.sleep(min(seconds, left))


def _last(error: Exception) -> str:
    r"""Return the last line of a message, or the message of the operating system in it.

    >>> _last(RuntimeError("Traceback (most recent call last):\n  ...\nValueError: no."))
    'ValueError: no'
    >>> _last(OSError("HTTPConnectionPool(...): Failed('[Errno 111] Connection refused')"))
    'Connection refused'
    """
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    of_system = _ERRNO.search(lines[-1]) if lines else None
    if of_system is not None:
        return of_system[1]
    return lines[-1].rstrip(".")[:_MAX_CHARS] if lines else type(error).__name__


def job_of(client: JobSubmissionClient, submission_id: str) -> JobDetails | None:
    """Return a job, or None if the job server does not know the id."""
    try:
        return client.get_job_info(submission_id)
    except RuntimeError as error:
        if "status code 404" in str(error):
            return None
        raise


def digest_of(job: JobDetails) -> str | None:
    """Return the digest of the submission of a job; None: it was not submitted from here."""
    return (job.metadata or {}).get(_DIGEST)


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The job to follow."""

    submission_id: str
    was_there: JobDetails | None
    """Its state before, if it existed before."""


def start(server: JobServer, submission: Submission, chosen_id: str | None) -> Started:
    """Start a submission, or find the existing job.

    Args:
        server: the job server.
        submission: the submission.
        chosen_id: the requested id: an existing job with this id is never run again. None: the
            next attempt.

    Raises:
        RefusedError: The job server requires another token, or refuses the request.
        UnreachableError: The server was not reached within the limit of patience.
    """
    asked_for = ""

    def attempt(client: JobSubmissionClient) -> Started:
        nonlocal asked_for
        name = asked_for or chosen_id
        if name is not None:
            job = job_of(client, name)
        else:
            jobs = {job.submission_id: job for job in client.list_jobs() if job.submission_id}
            name = next_id(submission.base_id, jobs)
            job = jobs.get(name)
        if job is not None:  # if it was asked for, the response was lost
            return Started(submission_id=name, was_there=None if asked_for else job)
        asked_for = name
        if not _submit(client, name, submission):
            asked_for = ""
            job = job_of(client, name)
        return Started(submission_id=name, was_there=job)

    return server.ask(attempt)


def next_id(base_id: str, jobs: Mapping[str, JobDetails]) -> str:
    """Return the id of the last attempt that has not ended, otherwise of the next one."""
    attempts = {_attempt(base_id, item): job for item, job in jobs.items()}
    attempts.pop(0, None)
    under_way = [number for number, job in attempts.items() if not job.status.is_terminal()]
    number = max(under_way) if under_way else max(attempts, default=0) + 1
    return base_id if number == 1 else f"{base_id}-{number}"


def _attempt(base_id: str, submission_id: str) -> int:
    """Return the number of an attempt, or 0 for the id of another job."""
    if submission_id == base_id:
        return 1
    start, _, number = submission_id.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and number[0] != "0"
    return int(number) if start == base_id and is_number and number != "1" else 0


def _submit(client: JobSubmissionClient, submission_id: str, submission: Submission) -> bool:
    """Start a job; return False if a job with this id exists.

    Raises:
        RefusedError: The server refuses the request.
    """
    with tempfile.TemporaryDirectory(prefix="nanotok-submit-") as folder:
        for name, data in submission.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        try:
            client.submit_job(
                entrypoint=submission.entrypoint,
                submission_id=submission_id,
                runtime_env={"working_dir": folder, "env_vars": dict(submission.variables)},
                metadata={_DIGEST: submission.digest},
            )
        except RuntimeError as error:
            if "already exists" in str(error):
                return False
            if "status code 400" in str(error):
                raise RefusedError(f"the job server refuses the job: {_last(error)}") from error
            raise
    return True
