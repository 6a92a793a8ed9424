"""SIGTERM as an exception, so that a run leaves in good order: exit code 143.

Ctrl-C is KeyboardInterrupt already; of several, only the first is.
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
"""After a Ctrl-C, before the next one counts: a run shuts down in less."""


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
    another thread than the main one signals stay as they are. The former handler comes back at the
    end.

    Raises:
        Terminated: SIGTERM came, whatever else the block raised because of it.
    """
    listener = _Listener()
    former = signal.getsignal(signal.SIGTERM)
    listener.listen()
    try:
        yield listener.listen
    except Terminated:
        raise
    except BaseException as error:
        # Ray, where it waits, makes another SystemExit of it; its own handler exits with this code.
        if listener.received or _is_rays(error):
            raise Terminated from error
        raise
    finally:
        _handle(signal.SIG_DFL if former is None else former)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt once while the block runs, however often it is pressed.

    A process group may get it several times, and people press it again while a run shuts down; only
    after `AGAIN_SECONDS` does it raise another one, in case the first was lost or the shutdown
    hangs. A block that Ctrl-C ended leaves it ignored, for a process that is about to exit.
    Nothing changes where Ctrl-C does something else than to raise, as in a job in the background.
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
    """A handler that raises at the first SIGINT, and at one that comes long after it last did."""

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
    """A handler that raises at the first SIGTERM; a run that is ending continues."""

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
