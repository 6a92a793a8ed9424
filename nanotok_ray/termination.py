"""SIGTERM as an exception, so that a run leaves in good order: exit code 143.

Knows signals and nothing of what is interrupted. Ctrl-C is KeyboardInterrupt already.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


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

    Gives a function that sets the handler again, for use after `ray.init`, which sets its own. In
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
        # Ray, where it waits, makes another SystemExit of it; its own handler gives this code.
        if listener.received or _is_rays(error):
            raise Terminated from error
        raise
    finally:
        _handle(signal.SIG_DFL if former is None else former)


class _Listener:
    """Raises at the first SIGTERM; whoever is on the way out already goes on."""

    def __init__(self) -> None:
        self.received = False

    def listen(self) -> None:
        _handle(self)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.received:
            self.received = True
            raise Terminated


def _handle(handler: Callable[[int, FrameType | None], None] | int) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _is_rays(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code == signal.SIGTERM
