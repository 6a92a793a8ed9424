"""The one place that decides which failures of a remote store may pass.

Takes any exception of an fsspec file system; raises `TransientIOError` for timeouts, broken
connections, throttling and server errors, and leaves everything else as it is. Local files never
come here: a full disk or a missing permission does not go away by trying again.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from nanotok_ray.errors import TransientIOError

_ERRNOS = {
    errno.EAGAIN,
    errno.EBUSY,  # s3fs: SlowDown, ServiceUnavailable
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.EINTR,
    errno.EIO,  # s3fs: InternalError and every code it does not know
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EPIPE,
    errno.ETIMEDOUT,
}
_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}

# Names of classes of aiohttp, botocore, urllib3, httpx and google-auth, none of which is imported
# here: which of them is installed depends on the store.
_NAMES = {
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
    "ResponseStreamingError",
    "ServerDisconnectedError",
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
        raise TransientIOError(
            f"cannot {action} {url} for now ({type(error).__name__}: {error}); try again"
        ) from error


def is_transient(error: BaseException) -> bool:
    """Tell whether an exception of a remote store, or what caused it, may pass.

    >>> is_transient(TimeoutError()), is_transient(FileNotFoundError(2, "no such key"))
    (True, False)
    """
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
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
    if _is_transient_status(_status(error)):
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


def _is_transient_status(status: object) -> bool:
    text = str(status)
    return text.isdecimal() and (
        int(text) in _STATUSES or int(text) >= HTTPStatus.INTERNAL_SERVER_ERROR
    )
