"""Trying again what a remote store refused for a moment.

Takes an operation that may be done twice without harm; gives its result, or an error that says how
often it was tried. Which failures may pass is not decided here, nor what the operation does.
`use_retry_policy` sets the policy of this process; there is no other way to change it.
"""

import errno
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
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
class RetryPolicy:
    """How often an operation is tried, and how long in between; times are in seconds."""

    tries: int = 5
    """At most, the first one included."""
    first_wait: float = 0.5
    """Doubled after every further failure."""
    longest_wait: float = 4.0
    give_up_after: float = 60.0
    """No try begins later than this after the first one began."""
    sleep: Callable[[float], None] = field(default=time.sleep, compare=False, repr=False)
    """Waits for a number of seconds."""
    monotonic: Callable[[], float] = field(default=time.monotonic, compare=False, repr=False)
    """Returns the time in seconds since any moment; never goes back."""

    def wait_after(self, failures: int) -> float | None:
        """Return how long to wait after that many failures, None if it was the last try.

        Up to half of a wait is left out at random, so that many readers do not come back at once.

        >>> RetryPolicy().wait_after(5) is None, 0.5 <= RetryPolicy().wait_after(2) <= 1.0
        (True, True)
        """
        if failures >= self.tries:
            return None
        wait = min(self.first_wait * float(2 ** (failures - 1)), self.longest_wait)
        return wait * random.uniform(0.5, 1.0)


class _Process:
    """The policy of this process. It is not local to a thread: pools of threads read and write."""

    policy = RetryPolicy()


def current_retry_policy() -> RetryPolicy:
    """Return the policy that `attempt` applies in this process.

    >>> current_retry_policy() == RetryPolicy()
    True
    """
    return _Process.policy


@contextmanager
def use_retry_policy(policy: RetryPolicy) -> Iterator[RetryPolicy]:
    """Apply a policy to every operation of this process, in all of its threads, inside the block.

    The policy from before applies again after the block. Blocks may be nested; blocks that overlap
    in different threads are not supported. Other processes, as the workers of a job, are not
    affected.

    >>> with use_retry_policy(RetryPolicy(tries=2)):
    ...     current_retry_policy().tries
    2
    """
    before = _Process.policy
    _Process.policy = policy
    try:
        yield policy
    finally:
        _Process.policy = before


def attempt(action: str, url: str, operation: Callable[[], T]) -> T:
    """Return the result of an operation, tried again after failures that may pass.

    The policy is the one that `current_retry_policy` returns when the operation begins.

    Args:
        action: what it does to the URL, for the error: "read".
        url: what it is done to.
        operation: what to do; must be harmless to do again, whether or not it had been done.

    Raises:
        TransientIOError: the last try failed in a way that may pass.
        FileNotFoundError, PermissionError: at once, naming the URL.
    """
    policy = current_retry_policy()
    started = policy.monotonic()
    for failures in itertools.count(1):
        try:
            return operation()
        except TransientIOError:
            raise  # was tried again where it was raised
        except Exception as error:
            if not is_transient(error):
                _name_url(action, url, error)
                raise
            wait = policy.wait_after(failures)
            elapsed = policy.monotonic() - started
            if wait is None or elapsed + wait > policy.give_up_after:
                tried = f", tried {failures} time(s) in {elapsed:.1f} s"
                raise passing_failure(action, url, error, tried=tried) from error
        policy.sleep(wait)
    raise AssertionError("an endless loop ended")


def _name_url(action: str, url: str, error: Exception) -> None:
    """Raise what says that a file is missing or forbidden again, with the URL and an errno."""
    message = f"cannot {action} {url}: {error}"
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, message) from error
    if isinstance(error, PermissionError) or type(error).__name__ in _NO_CREDENTIALS:
        raise PermissionError(errno.EACCES, message) from error
