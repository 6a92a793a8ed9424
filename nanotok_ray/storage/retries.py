"""Retries of transient failures of storage, and the rules that recognize them."""

import errno
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeVar

from nanotok_ray.errors import NanotokError, TransientIOError
from nanotok_ray.formats import is_local
from nanotok_ray.units import quantity

_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,  # s3fs: SlowDown, ServiceUnavailable
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EINTR,
    errno.EIO,  # s3fs: every unknown code; a disk or a network file system
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EPIPE,
    getattr(errno, "EREMOTEIO", errno.EIO),  # s3fs: InternalError; Linux alone has it
    errno.ESTALE,  # NFS
    errno.ETIMEDOUT,
}
_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}

# Transient error codes of S3 whose HTTP status, or whose translation by s3fs, looks permanent.
_CODES = {
    "BadDigest",  # of the received data, not of the sent data
    "ConditionalRequestConflict",  # a concurrent writer of the same name
    "IncompleteBody",
    "NoSuchUpload",  # an upload that was completed or aborted while its response was lost
    "RequestTimeout",
    "SlowDown",
    "XAmzContentSHA256Mismatch",
}

# Names of classes of aiohttp, botocore, urllib3, requests, httpx, google-auth and azure-core, from
# which those of their transient errors are derived. None of them is imported, since the store
# determines which of them is installed.
_NAMES = {
    "ChunkedEncodingError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionError",
    "FlexibleChecksumError",  # botocore: the received bytes are not those that were stored
    "HTTPClientError",
    "IncompleteRead",
    "IncompleteReadError",
    "ProtocolError",
    "ResponseParserError",  # botocore: a truncated response, or the page of a load balancer
    "ServiceRequestError",
    "ServiceResponseError",
    "Timeout",
    "TimeoutError",  # of urllib3
    "TransportError",
}


@contextmanager
def transient_errors(action: str, url: str) -> Iterator[None]:
    """Convert transient failures into `TransientIOError` with the action and the URL.

    Raises:
        TransientIOError: The body failed in a way that a retry can solve.
    """
    try:
        yield
    except TransientIOError:
        raise
    except Exception as error:
        if not is_transient(error):
            raise
        raise passing_failure(action, url, error) from error


def passing_failure(
    action: str, url: str, error: Exception, *, tried: str = ""
) -> TransientIOError:
    """Return the error for a transient failure; `tried` describes the tries so far."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TransientIOError(f"cannot {action} {url} for now{tried} ({reason}); try again")


def is_transient(error: BaseException) -> bool:
    """Return whether an exception of storage, or its cause, is transient.

    >>> is_transient(TimeoutError()), is_transient(FileNotFoundError(2, "no such key"))
    (True, False)
    """
    for cause in causes(error):
        if isinstance(cause, NanotokError):
            return isinstance(cause, TransientIOError)
        if _looks_transient(cause):
            return True
    return False


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of its cause, and so on."""
    seen: list[BaseException] = []
    while error is not None and not any(error is other for other in seen):
        yield error
        seen.append(error)
        error = error.__cause__


def has_status(error: BaseException | None, status: HTTPStatus) -> bool:
    """Return whether an exception, or its cause, has an HTTP status."""
    return any(_status(cause) == status for cause in causes(error))


def _looks_transient(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | InterruptedError):
        return True
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    if _is_transient_status(_status(error)) or _code(error) in _CODES:
        return True
    return any(base.__name__ in _NAMES for base in type(error).__mro__)


def _status(error: BaseException) -> object:
    """Return the HTTP status of an exception, in the attribute of any of the libraries."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if value is not None:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return getattr(response, "status_code", None)


def _code(error: BaseException) -> object:
    """Return the error code of an exception of botocore."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _is_transient_status(status: object) -> bool:
    text = str(status)
    return text.isdecimal() and (
        int(text) in _STATUSES or int(text) >= HTTPStatus.INTERNAL_SERVER_ERROR
    )


T = TypeVar("T")

_JITTER = random.SystemRandom()
"""Does not change the state of `random`, and differs between forked processes."""

_CREDENTIALS = (
    "set credentials that may access it, on this machine and on every node (for S3 AWS_PROFILE, or "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; docs/storage.md)"
)

# Names of classes of botocore, google-auth and azure-core for missing credentials.
_NO_CREDENTIALS = {
    "ClientAuthenticationError",
    "DefaultCredentialsError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
}


def backoff(
    failures: int, *, first: float, longest: float, jitter: random.Random = _JITTER
) -> float:
    """Return the seconds to wait after some failures.

    The time doubles with each failure up to a limit, and is reduced at random by up to a half, so
    that many processes do not retry simultaneously.
    """
    return min(first * 2.0 ** min(failures - 1, 30), longest) * jitter.uniform(0.5, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreRetryPolicy:
    """The number of tries of an operation, and the time between them in seconds."""

    tries: int = 5
    """Limit of tries, including the first."""
    first_wait: float = 0.5
    """Seconds before the second try; doubled after every further failure."""
    max_wait: float = 4.0
    give_up_after: float = 60.0
    """Seconds after the first try after which no further try begins."""
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False, repr=False)
    """Sleeps for a number of seconds."""
    monotonic: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)
    """Returns the time in seconds of a monotonic clock."""

    def wait_after(self, failures: int) -> float | None:
        """Return the time to wait after this number of failures, or None after the last try.

        >>> policy = StoreRetryPolicy()
        >>> policy.wait_after(5) is None, 0.5 <= policy.wait_after(2) <= 1.0
        (True, True)
        """
        if failures >= self.tries:
            return None
        return backoff(failures, first=self.first_wait, longest=self.max_wait)


POLICY: Final = StoreRetryPolicy()
"""The policy of all operations."""


def attempt(action: str, url: str, operation: Callable[[], T]) -> T:
    """Return the result of an operation, which is retried after transient failures.

    Args:
        action: the verb for the error message, such as "read".
        url: the URL of the operation.
        operation: the function to call; it must be safe to call again whether or not it succeeded.

    Raises:
        TransientIOError: The last try failed in a way that a retry can solve.
        FileNotFoundError, PermissionError: Raised after the first try; the message names the URL.
    """
    policy = POLICY
    started = policy.monotonic()
    for failures in itertools.count(1):
        try:
            return operation()
        except TransientIOError:
            raise  # has been retried where it was raised
        except Exception as error:
            if not is_transient(error):
                _name_url(action, url, error)
                raise
            wait = policy.wait_after(failures)
            elapsed = policy.monotonic() - started
            if wait is None or elapsed + wait > policy.give_up_after:
                tried = f", tried {quantity(failures, 'time')} in {elapsed:.1f} s"
                raise passing_failure(action, url, error, tried=tried) from error
        policy.sleep(wait)
    raise AssertionError("an endless loop ended")


@contextmanager
def named(path: str) -> Iterator[None]:
    """Add a path to errors of the operating system, which lack it if the file was open."""
    try:
        yield
    except OSError as error:
        if error.errno and not error.filename:
            error.filename = path
        raise


def _name_url(action: str, url: str, error: Exception) -> None:
    """Raise a missing or forbidden file again with the URL and an errno; name a local file."""
    if is_local(url):
        with named(url):
            raise error
    message = f"cannot {action} {url}: {error}"
    if isinstance(error, FileNotFoundError) or has_status(error, HTTPStatus.NOT_FOUND):
        is_bucket = "bucket" in str(error) or "ContainerNotFound" in str(error)
        advice = "; create it, or change the path" if is_bucket else ""
        raise FileNotFoundError(errno.ENOENT, f"{message}{advice}") from error
    if (
        isinstance(error, PermissionError)
        or has_status(error, HTTPStatus.FORBIDDEN)
        or str(error).startswith("Forbidden:")  # gcsfs: an OSError without a status
        or type(error).__name__ in _NO_CREDENTIALS
    ):
        raise PermissionError(errno.EACCES, f"{message}; {_CREDENTIALS}") from error
