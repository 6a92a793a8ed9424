"""The one place that decides which failures of a remote store may pass.

Takes any exception of an fsspec file system; raises `TransientIOError` for timeouts, broken
connections, throttling and server errors, and leaves everything else as it is. Local files never
come here: a full disk or a missing permission does not go away by trying again.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from nanotok_ray.errors import NanotokError, TransientIOError

_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,  # s3fs: SlowDown, ServiceUnavailable
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EINTR,
    errno.EIO,  # s3fs: every code it does not know
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.EREMOTEIO,  # s3fs: InternalError
    errno.ETIMEDOUT,
}
_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}

# Error codes of S3 whose HTTP status, or what s3fs makes of them, would say that they last.
_CODES = {
    "BadDigest",  # of what arrived, not of what was sent
    "ConditionalRequestConflict",  # another writer of the same name, at the same time
    "IncompleteBody",
    "NoSuchUpload",  # an upload that was completed or thrown away while its answer got lost
    "RequestTimeout",
    "SlowDown",
    "XAmzContentSHA256Mismatch",
}

# Names of classes of aiohttp, botocore, urllib3, requests, httpx, google-auth and azure-core, none
# of which is imported here: which of them is installed depends on the store.
_NAMES = {
    "ChunkedEncodingError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectTimeoutError",
    "ConnectionClosedError",
    "ConnectionError",
    "EndpointConnectionError",
    "HTTPClientError",
    "IncompleteRead",
    "IncompleteReadError",
    "ProtocolError",
    "ReadTimeoutError",
    "ResponseParserError",  # botocore: an answer that is cut off, or a load balancer's page
    "ResponseStreamingError",
    "ServerDisconnectedError",
    "ServiceRequestError",
    "ServiceResponseError",
    "Timeout",
    "TransportError",
}


@contextmanager
def transient_errors(action: str, url: str) -> Iterator[None]:
    """Turn failures that may pass into `TransientIOError`, naming what was done to which URL.

    Raises:
        TransientIOError: the body failed in a way that may pass.
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
    """Give the error for a failure that may pass; `tried` says what was done about it."""
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TransientIOError(f"cannot {action} {url} for now{tried} ({reason}); try again")


def is_transient(error: BaseException) -> bool:
    """Tell whether an exception of a remote store, or what caused it, may pass.

    >>> is_transient(TimeoutError()), is_transient(FileNotFoundError(2, "no such key"))
    (True, False)
    """
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and not any(current is each for each in seen):
        if isinstance(current, NanotokError):
            return isinstance(current, TransientIOError)
        if _looks_transient(current):
            return True
        seen.append(current)
        current = current.__cause__
    return False


def _looks_transient(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | InterruptedError):
        return True
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return True
    if _is_transient_status(_status(error)) or _code(error) in _CODES:
        return True
    return any(base.__name__ in _NAMES for base in type(error).__mro__)


def _status(error: BaseException) -> object:
    """Give the HTTP status that an exception carries, wherever its library puts it."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if value is not None:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return getattr(response, "status_code", None)


def _code(error: BaseException) -> object:
    """Give the error code that an exception of botocore carries."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _is_transient_status(status: object) -> bool:
    text = str(status)
    return text.isdecimal() and (
        int(text) in _STATUSES or int(text) >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
