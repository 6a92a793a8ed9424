"""A worker process of the local executor.

The process is started by a command, not by a fork or by `multiprocessing`: it inherits no threads
and no locks of the driver, and a script without a `__main__` guard is not run again.
"""

import os
import pickle
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType

from nanotok_ray.job.worker_pool import run_attempt


class _Interrupt:
    """The handler of SIGINT: it interrupts a call, and does nothing between calls."""

    def __init__(self) -> None:
        self.is_armed = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_armed:
            self.is_armed = False
            raise KeyboardInterrupt


def serve(connection: Connection) -> None:
    """Run the calls that arrive, one after the other, until the driver closes the connection.

    The reply to a call is a pair: True and the outcome, or False and the exception that it raised.
    """
    interrupt = _Interrupt()
    signal.signal(signal.SIGINT, interrupt)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, ConnectionError):
            return
        connection.send_bytes(_reply(message, interrupt))


def _reply(message: bytes, interrupt: _Interrupt) -> bytes:
    try:
        interrupt.is_armed = True
        arguments = pickle.loads(message)  # noqa: S301 - from the process that started this one
        reply = pickle.dumps((True, run_attempt(*arguments)))
        interrupt.is_armed = False
    except BaseException as error:
        interrupt.is_armed = False
        return _raised(error)
    return reply


def _raised(error: BaseException) -> bytes:
    """Pack an exception, or its text if it does not survive packing."""
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - packed a line above
    except Exception:  # whatever its class does
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return packed


def end_with_driver(descriptor: int) -> None:
    """Wait until the driver closes the connection, then end this process immediately."""
    poll = select.poll()
    poll.register(descriptor, 0)  # reports only that the other end was closed
    poll.poll()
    os._exit(1)


def command(descriptor: int) -> list[str]:
    """Return the command that starts a worker on the connection with this file descriptor.

    The worker finds modules where the driver finds them.
    """
    return [
        sys.executable,
        "-c",
        f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main({descriptor})",
    ]


def main(descriptor: int) -> None:
    """Serve the connection with this file descriptor."""
    threading.Thread(target=end_with_driver, args=(descriptor,), daemon=True).start()
    serve(Connection(descriptor))
