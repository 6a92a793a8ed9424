"""A proxy for an HTTP server on the loopback interface that fails on demand, for tests.

It passes other requests through, on persistent connections. The order of requests alone determines
which gets which fault. It has S3's error responses.
"""

import http.client
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from typing_extensions import Self

_PASSED_ON = {"connection", "expect", "keep-alive", "transfer-encoding", "content-length"}
_CONDITIONS = {"if-match", "if-none-match"}


class Fault(Enum):
    """The fault of a request; those with an error code are answered here instead of passed on."""

    RESET = "the connection is reset before the server sees the request"
    RESET_AFTER = "the connection is reset when the server has done what was asked"
    STALL = "no answer, until the client or the proxy closes the connection"
    TRUNCATE = "half of the answer's body, then the end of the connection"
    SLOW_DOWN = (503, "SlowDown", "Please reduce your request rate.")
    INTERNAL_ERROR = (500, "InternalError", "We encountered an internal error.")
    THROTTLED = (429, "TooManyRequests", "Too many requests.")
    INCOMPLETE_BODY = (400, "IncompleteBody", "The number of bytes is not what was said.")
    FORBIDDEN = (403, "AccessDenied", "Access Denied")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request of a client."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class _Rule:
    faults: "itertools.cycle[Fault] | Iterable[Fault]"
    matches: Callable[[Request], bool]
    period: int
    seen: int = field(default=0)


class FaultyProxy:
    """The proxy; a context manager that listens at `url`."""

    def __init__(self, host: str, port: int, *, server_pid: int = 0) -> None:
        self.server = (host, port)
        """Address of the server behind the proxy."""
        self.server_pid = server_pid
        self._lock = threading.Lock()
        self._conditional = threading.Lock()
        self._rules: list[_Rule] = []
        self._released = threading.Event()
        self._clients: set[socket.socket] = set()
        self.requests: list[tuple[str, str, Fault | None]] = []
        """Method, path and fault of every request since `clear`."""
        self.delay = 0.0
        """Seconds by which each request is delayed."""
        self.most_at_once = 0
        """The maximum number of simultaneously delayed requests since `clear`."""
        self._waiting = 0

    def fail(
        self, *faults: Fault, method: str | None = None, path: str = "", period: int = 1
    ) -> None:
        """Apply these faults to the next requests, one each, then none.

        Args:
            faults: the faults in order.
            method: only requests of this method.
            path: only requests whose path and query contain this.
            period: only every `period`-th such request.
        """
        self._add(iter(faults), method=method, path=path, period=period)

    def fail_always(
        self, *faults: Fault, method: str | None = None, path: str = "", period: int = 1
    ) -> None:
        """Like `fail`, but start with the first fault again after the last."""
        self._add(itertools.cycle(faults), method=method, path=path, period=period)

    def clear(self) -> None:
        """Remove all faults and recorded requests."""
        with self._lock:
            self._rules.clear()
            self.requests.clear()
            self.delay, self.most_at_once = 0.0, 0

    @property
    def faults(self) -> list[Fault]:
        """The faults that happened since `clear`."""
        return [fault for _, _, fault in self.requests if fault is not None]

    def __enter__(self) -> "Self":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in list(self._clients):
            _shut(client)
        self._thread.join()

    def _add(self, faults: Iterable[Fault], *, method: str | None, path: str, period: int) -> None:
        def matches(request: Request) -> bool:
            return method in {None, request.method} and path in request.path

        with self._lock:
            self._rules.append(_Rule(faults=faults, matches=matches, period=period))

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            self._clients.add(client)
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()

    def _serve(self, client: socket.socket) -> None:
        """Answer the requests of one connection until either side ends it."""
        with suppress(OSError), client, client.makefile("rb") as stream:  # clients can disconnect
            while (request := _read_request(client, stream)) and self._answer(client, request):
                pass
        self._clients.discard(client)

    def _answer(self, client: socket.socket, request: Request) -> bool:
        """Answer a request, with a fault if it is its turn; return whether to continue."""
        fault = self._fault(request)
        if self.delay:
            self._wait()
        if fault is Fault.STALL:
            _wait_for_end(client, self._released)
        elif fault is Fault.RESET:
            _reset(client)
        elif fault is not None and isinstance(fault.value, tuple):
            client.sendall(_error_answer(request, *fault.value))
            return True
        else:
            head, body = self._ask_server(request)
            if fault is Fault.RESET_AFTER:
                _reset(client)
            else:
                is_whole = fault is None
                client.sendall(head + (body if is_whole else body[: len(body) // 2]))
                return is_whole
        return False

    def _fault(self, request: Request) -> Fault | None:
        with self._lock:
            fault = next(filter(None, (_next_fault(rule, request) for rule in self._rules)), None)
            self.requests.append((request.method, request.path, fault))
        return fault

    def _wait(self) -> None:
        """Wait for the delay, and record the number of waiting requests."""
        with self._lock:
            self._waiting += 1
            self.most_at_once = max(self.most_at_once, self._waiting)
        self._released.wait(self.delay)
        with self._lock:
            self._waiting -= 1

    def _ask_server(self, request: Request) -> tuple[bytes, bytes]:
        """Return head and body of the server's answer; conditional requests are serialized.

        S3 processes such requests one after the other. The server of the tests checks first and
        writes later, so that two simultaneous clients would both create an object.
        """
        is_conditional = not _CONDITIONS.isdisjoint(request.headers)
        with self._conditional if is_conditional else nullcontext():
            return self._forward(request)

    def _forward(self, request: Request) -> tuple[bytes, bytes]:
        connection = http.client.HTTPConnection(*self.server)
        connection.putrequest(
            request.method, request.path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in request.headers.items():
            if name not in _PASSED_ON:
                connection.putheader(name, value)
        connection.putheader("content-length", str(len(request.body)))
        connection.endheaders(request.body)
        with connection.getresponse() as answer:
            body = answer.read()
            is_head = request.method == "HEAD"
            length = answer.headers.get("Content-Length") if is_head else str(len(body))
            kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _PASSED_ON]
        connection.close()
        if length is not None:
            kept.append(("Content-Length", length))
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        lines += [f"{name}: {value}" for name, value in kept]
        return "\r\n".join([*lines, "", ""]).encode("latin-1"), body


def _next_fault(rule: _Rule, request: Request) -> Fault | None:
    if not rule.matches(request):
        return None
    rule.seen += 1
    return next(iter(rule.faults), None) if rule.seen % rule.period == 0 else None


def _read_request(client: socket.socket, stream: BinaryIO) -> Request | None:
    """Return the next request, or None at the end of the connection."""
    line = stream.readline().decode("latin-1").split()
    if not line:
        return None
    headers = {}
    while header := stream.readline().decode("latin-1").strip():
        name, _, value = header.partition(":")
        headers[name.strip().lower()] = value.strip()
    assert "transfer-encoding" not in headers, "bodies in chunks are not passed on"
    if "expect" in headers:
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(method=line[0], path=line[1], headers=headers, body=body)


def _error_answer(request: Request, status: int, code: str, message: str) -> bytes:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {message}\r\nContent-Type: application/xml\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if request.method == "HEAD" else body)


def _reset(client: socket.socket) -> None:
    """Make the next close send a reset instead of an end."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _wait_for_end(client: socket.socket, released: threading.Event) -> None:
    client.settimeout(0.05)
    while not released.is_set():
        try:
            if not client.recv(1):
                return
        except TimeoutError:
            continue


def _shut(client: socket.socket) -> None:
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
