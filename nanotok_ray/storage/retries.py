"""Trying again what a remote store refused for a moment.

Takes an operation that may be done twice without harm; gives its result, or an error that says how
often it was tried. Which failures may pass is not decided here, nor what the operation does.
"""

import errno
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from nanotok_ray.errors import TransientIOError
from nanotok_ray.storage.transient import is_transient, passing_failure

T = TypeVar("T")

# Names of classes of botocore, google-auth and azure-core: nobody to ask in the name of.
_NO_CREDENTIALS = {
    "ClientAuthenticationError",
    "DefaultCredentialsError",
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Retries:
    """How often an operation is tried, and how long in between; times are in seconds."""

    tries: int = 5
    """At most, the first one included."""
    first_wait: float = 0.5
    """Doubled after every further failure."""
    longest_wait: float = 4.0
    give_up_after: float = 60.0
    """No try begins later than this after the first one began."""

    def wait_after(self, failures: int) -> float | None:
        """Give how long to wait after that many failures, None if it was the last try.

        Up to half of a wait is left out at random, so that many readers do not come back at once.

        >>> Retries().wait_after(5) is None, 0.5 <= Retries().wait_after(2) <= 1.0
        (True, True)
        """
        if failures >= self.tries:
            return None
        wait = min(self.first_wait * float(2 ** (failures - 1)), self.longest_wait)
        return wait * random.uniform(0.5, 1.0)


RETRIES = Retries()
"""What `attempt` goes by."""


def attempt(action: str, url: str, operation: Callable[[], T]) -> T:
    """Give the result of an operation, tried again after failures that may pass.

    Args:
        action: what it does to the URL, for the error: "read".
        url: what it is done to.
        operation: what to do; must be harmless to do again, whether or not it had been done.

    Raises:
        TransientIOError: the last try failed in a way that may pass.
        FileNotFoundError, PermissionError: at once, naming the URL.
    """
    started = time.monotonic()
    for failures in itertools.count(1):
        try:
            return operation()
        except TransientIOError:
            raise  # was tried again where it was raised
        except Exception as error:
            if not is_transient(error):
                _name_url(action, url, error)
                raise
            wait = RETRIES.wait_after(failures)
            elapsed = time.monotonic() - started
            if wait is None or elapsed + wait > RETRIES.give_up_after:
                tried = f", tried {failures} time(s) in {elapsed:.1f} s"
                raise passing_failure(action, url, error, tried=tried) from error
        time.sleep(wait)
    raise AssertionError("an endless loop ended")


def _name_url(action: str, url: str, error: Exception) -> None:
    """Raise what says that a file is missing or forbidden again, with the URL and an errno."""
    message = f"cannot {action} {url}: {error}"
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, message) from error
    if isinstance(error, PermissionError) or type(error).__name__ in _NO_CREDENTIALS:
        raise PermissionError(errno.EACCES, message) from error
