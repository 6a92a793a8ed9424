"""A proxy for an HTTP server on the loopback interface that fails on demand, for tests.

It passes other requests through, on persistent connections. The order of requests alone determines
which gets which fault. It has S3's error responses.
"""

import http.client
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_OF_A_CONNECTION = {"connection", "expect", "keep-alive", "transfer-encoding", "content-length"}
_CONDITIONS = ("if-match", "if-none-match")


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


@dataclass(kw_only=True)
class _Rule:
    faults: Iterator[Fault]
    method: str | None
    path: str
    period: int
    seen: int = 0

    def next_fault(self, method: str, path: str) -> Fault | None:
        if self.method not in {None, method} or self.path not in path:
            return None
        self.seen += 1
        return next(self.faults, None) if self.seen % self.period == 0 else None


class FaultyProxy(ThreadingHTTPServer):
    """The proxy; a context manager that listens at `url`."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, *, server_pid: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.server = (host, port)
        """Address of the server behind the proxy."""
        self.server_pid = server_pid
        self._lock, self._conditional = threading.Lock(), threading.Lock()
        self._rules: list[_Rule] = []
        self._clients: set[socket.socket] = set()
        self.requests: list[tuple[str, str, Fault | None]] = []
        """Method, path and fault of every request since `clear`."""
        self.delay = 0.0
        """Seconds by which each request is delayed."""
        self.most_at_once = 0
        """The maximum number of simultaneously delayed requests since `clear`."""
        self.ignores_conditions = False
        """Whether it drops conditions, like a server that does not know them."""
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
        self._add(_Rule(faults=iter(faults), method=method, path=path, period=period))

    def fail_always(
        self, *faults: Fault, method: str | None = None, path: str = "", period: int = 1
    ) -> None:
        """Like `fail`, but start with the first fault again after the last."""
        self._add(_Rule(faults=itertools.cycle(faults), method=method, path=path, period=period))

    def _add(self, rule: _Rule) -> None:
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        """Remove all faults and recorded requests."""
        with self._lock:
            self._rules.clear()
            self.requests.clear()
            self.delay, self.most_at_once = 0.0, 0
            self.ignores_conditions = False

    @property
    def faults(self) -> list[Fault]:
        """The faults that happened since `clear`."""
        return [fault for _, _, fault in self.requests if fault is not None]

    def __enter__(self) -> "Self":
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        for client in list(self._clients):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request(self, request, client_address):
        self._clients.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._clients.discard(request)
        request.close()  # without a shutdown, which would announce an end before a reset

    def fault_of(self, method: str, path: str) -> Fault | None:
        """Record a request, wait for the delay, and return the fault of the request."""
        with self._lock:
            found = (rule.next_fault(method, path) for rule in self._rules)
            fault = next(filter(None, found), None)
            self.requests.append((method, path, fault))
            self._waiting += 1
            if self.delay:
                self.most_at_once = max(self.most_at_once, self._waiting)
        time.sleep(self.delay)
        with self._lock:
            self._waiting -= 1
        return fault

    def serialized(self, headers: http.client.HTTPMessage) -> AbstractContextManager[object]:
        """Return a lock for conditional requests.

        S3 processes such requests one after the other. The server of the tests checks first and
        writes later, so that two simultaneous clients would both create an object.
        """
        return self._conditional if any(map(headers.get, _CONDITIONS)) else nullcontext()


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: FaultyProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Print nothing."""

    def handle(self):
        with suppress(OSError):  # clients can disconnect
            super().handle()

    def _serve(self):
        """Answer a request, with a fault if it is its turn."""
        assert "transfer-encoding" not in self.headers, "bodies in chunks are not passed on"
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = self.server.fault_of(self.command, self.path)
        if fault is not None and isinstance(fault.value, tuple):
            status, code, message = fault.value
            text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
            self._send(status, message, [("Content-Type", "application/xml")], text.encode())
            return
        self.close_connection = self.close_connection or fault is not None
        if fault is Fault.STALL:
            while self.connection.recv(1):
                pass
        if fault in {None, Fault.RESET_AFTER, Fault.TRUNCATE}:
            answer = self._ask_server(body)
        if fault in {None, Fault.TRUNCATE}:
            self._send(*answer, is_complete=fault is None)
        elif fault in {Fault.RESET, Fault.RESET_AFTER}:  # instead of the end of a connection
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - as http.server wants

    def _ask_server(self, body):
        """Return status, reason, headers and body of the server's answer."""
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_A_CONNECTION}
        if self.server.ignores_conditions:
            headers = {k: v for k, v in headers.items() if k.lower() not in _CONDITIONS}
        connection = http.client.HTTPConnection(*self.server.server)
        with self.server.serialized(self.headers):
            connection.request(self.command, self.path, body, headers)
            with connection.getresponse() as answer:
                found = answer.read()
        connection.close()
        length = answer.headers.get("Content-Length")
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in _OF_A_CONNECTION]
        if self.command == "HEAD" and length is not None:
            kept.append(("Content-Length", length))
        return self._mended(answer.status), answer.reason, kept, found

    def _mended(self, status):
        """Return the status that S3 has for two requests that s3s-fs 0.14.1 answers with 500."""
        if status == HTTPStatus.INTERNAL_SERVER_ERROR and self.command == "HEAD":
            return HTTPStatus.NOT_FOUND  # of a folder
        if status == HTTPStatus.INTERNAL_SERVER_ERROR and "bytes=-" in self.headers.get(
            "range", ""
        ):
            return HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE  # of an object that is shorter
        return status

    def _send(self, status, reason, headers, body, *, is_complete=True):
        """Send an answer, or its head and half of its body."""
        self.send_response_only(status, reason)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" or body:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if is_complete else body[: len(body) // 2])
