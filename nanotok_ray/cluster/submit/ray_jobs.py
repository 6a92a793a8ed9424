"""Ray's job server, with short time limits and two classes of errors.

The input is the address of a dashboard. The module imports Ray, so import it where it is needed.
"""

import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobSubmissionClient

from nanotok_ray.cluster.submit.submission import JobState, Submission
from nanotok_ray.errors import RefusedError, UnreachableError
from nanotok_ray.job.doctor.ray_settings import NO_SERVER

ANSWER_SECONDS = 60.0
"""Time limit of an answer; Ray's own client waits forever."""

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
_NOT_FOUND = "status code 404"


class RayJobs:
    """The job server at an address; the first method call connects to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: JobSubmissionClient | None = None

    def states(self) -> Mapping[str, JobState]:
        """Return all submitted jobs by id.

        Raises:
            RefusedError: The server requires another token.
            UnreachableError: The server gave no answer, or an invalid one.
        """
        with self._translated():
            jobs = self._connected().list_jobs()
        return {job.submission_id: _state(job) for job in jobs if job.submission_id}

    def state(self, submission_id: str) -> JobState | None:
        """Return a job, or None if the id is unknown.

        Raises:
            RefusedError: The server requires another token.
            UnreachableError: The server gave no answer, or an invalid one.
        """
        with self._translated():
            try:
                return _state(self._connected().get_job_info(submission_id))
            except RuntimeError as error:
                if _NOT_FOUND in str(error):
                    return None
                raise

    def submit(self, submission_id: str, submission: Submission) -> bool:
        """Start a job; return False if a job with this id exists.

        Raises:
            RefusedError: The server requires another token, or refuses the request.
            UnreachableError: The server gave no answer; the job may have been started.
        """
        with tempfile.TemporaryDirectory(prefix="nanotok-submit-") as folder, self._translated():
            for name, data in submission.files.items():
                Path(folder, name).write_bytes(data)
            try:
                self._connected().submit_job(
                    entrypoint=submission.entrypoint,
                    submission_id=submission_id,
                    runtime_env={"working_dir": folder, "env_vars": dict(submission.variables)},
                    metadata={_DIGEST: submission.digest},
                )
            except RuntimeError as error:
                if "already exists" in str(error):
                    return False
                if "status code 400" in str(error):
                    raise RefusedError(f"{self.address} refuses the job: {_last(error)}") from error
                raise
        return True

    def log_of(self, submission_id: str) -> str:
        """Return the whole output of a job: stdout and stderr of its driver.

        Raises:
            UnreachableError: The server gave no answer, or an invalid one.
        """
        with self._translated():
            return str(self._connected().get_job_logs(submission_id))

    def _connected(self) -> JobSubmissionClient:
        """Return Ray's client, which is connected once.

        Raises:
            OSError: The connection failed; Ray and `requests` raise many other classes too.
        """
        if self._client is None:
            for name in _TALKATIVE:
                logging.getLogger(name).setLevel(logging.WARNING)
            with _environment(self.address):
                self._client = _Client(self.address)
        return self._client

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Convert all errors of a request to one of two classes."""
        try:
            yield
        except UnreachableError:
            raise
        except AuthenticationError as error:
            raise RefusedError(_access_message(self.address, error)) from error
        except _TROUBLE as error:
            text = f"no answer from the job server at {self.address}: {_last(error)}"
            if self._client is None:  # the server has never answered, so the address may be wrong
                text = f"{text}; {NO_SERVER}"
            raise UnreachableError(text) from error


class _Client(JobSubmissionClient):  # type: ignore[misc]  # untyped
    """Ray's client with a time limit for each answer."""

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


def _state(job: JobDetails) -> JobState:
    return JobState(
        status=str(job.status.value),
        exit_code=job.driver_exit_code,
        message=job.message or "",
        digest=(job.metadata or {}).get(_DIGEST),
    )


def _access_message(address: str, error: AuthenticationError) -> str:
    mode = os.environ.get("RAY_AUTH_MODE")
    now = "RAY_AUTH_MODE is not set here" if mode is None else f"RAY_AUTH_MODE is {mode!r} here"
    first = str(error).strip().split("\n")[0].split(". ")[0]
    places = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    source = next((name for name in places if name in os.environ), "~/.ray/auth_token")
    advice = (
        "export RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN=... or RAY_AUTH_TOKEN_PATH=FILE"
        if mode != "token"
        else f"the token of {source} was used; `ray get-auth-token` shows the right one on the head"
    )
    return f"the job server at {address} requires the cluster's token ({first}; {now}): {advice}"


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
