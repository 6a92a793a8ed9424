"""SIGTERM as an exception, so that a run shuts down cleanly with exit code 143.

Ctrl-C raises KeyboardInterrupt already; if it is pressed several times, only the first one raises.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM

AGAIN_SECONDS = 10.0
"""Seconds after a Ctrl-C in which further ones are ignored: a run shuts down in less time."""


class Terminated(SystemExit):
    """The process was asked to end; uncaught, it ends with exit code 143.

    >>> Terminated().code
    143
    """

    def __init__(self) -> None:
        super().__init__(EXIT_CODE)


@contextmanager
def terminable() -> Iterator[Callable[[], None]]:
    """Let SIGTERM raise `Terminated` in the main thread while the block runs, once.

    Yields a function that sets the handler again, for use after `ray.init`, which sets its own. In
    threads other than the main thread, signal handlers are not changed. The former handler is
    restored at the end.

    Raises:
        Terminated: SIGTERM arrived, whatever else the block raised because of it.
    """
    listener = _Listener()
    former = signal.getsignal(signal.SIGTERM)
    listener.listen()
    try:
        yield listener.listen
    except Terminated:
        raise
    except BaseException as error:
        # A waiting call of Ray turns it into another SystemExit, with the code of Ray's handler.
        if listener.received or _is_rays(error):
            raise Terminated from error
        raise
    finally:
        _handle(signal.SIG_DFL if former is None else former)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt once while the block runs, however often it is pressed.

    A process group can receive SIGINT several times, and people press Ctrl-C again while a run
    shuts down. Another KeyboardInterrupt is raised only after `AGAIN_SECONDS`, in case the first
    was lost or the shutdown hangs. If Ctrl-C was pressed in the block, SIGINT is ignored after it,
    for a process that is about to exit. Nothing changes if SIGINT does not have Python's default
    handler, as in a background job.
    """
    is_ours = _is_main() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours:
        yield
        return
    interrupter = _Interrupter()
    signal.signal(signal.SIGINT, interrupter)
    try:
        yield
    finally:
        after = signal.SIG_IGN if interrupter.has_raised else signal.default_int_handler
        signal.signal(signal.SIGINT, after)


class _Interrupter:
    """A handler that raises at the first SIGINT, and at later ones after `AGAIN_SECONDS`."""

    def __init__(self) -> None:
        self._raised_at = -math.inf

    @property
    def has_raised(self) -> bool:
        return self._raised_at > -math.inf

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._raised_at >= AGAIN_SECONDS:
            self._raised_at = now
            raise KeyboardInterrupt


class _Listener:
    """A handler that raises at the first SIGTERM only, so that a shutdown is not interrupted."""

    def __init__(self) -> None:
        self.received = False

    def listen(self) -> None:
        _handle(self)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.received:
            self.received = True
            raise Terminated


def _handle(handler: Callable[[int, FrameType | None], None] | int) -> None:
    if _is_main():
        signal.signal(signal.SIGTERM, handler)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_rays(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code == signal.SIGTERM
