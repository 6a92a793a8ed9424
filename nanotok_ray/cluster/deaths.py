"""Which cause each of Ray's errors stands for: the slice's fault, its worker's, or its node's.

What Ray 2.60 raises for a task that it may not retry was tried: a killed or exited worker is
WorkerCrashedError, which does not say how; a node that dies or stops is NodeDiedError.
"""

from typing import TYPE_CHECKING

from nanotok_ray.errors import NanotokError, SharedFolderError, TransientIOError
from nanotok_ray.job.task import Cause, Failure

if TYPE_CHECKING:
    from ray.exceptions import RayError

SHOWN_CHARS = 300


def failure_of(error: "RayError") -> Failure:
    """Give cause and words for an error that a call ended with as a whole.

    Raises:
        SharedFolderError: the worker's node does not see a folder of the job.
    """
    from ray import exceptions  # noqa: PLC0415 - the session must have set its environment before

    if isinstance(error, exceptions.RayTaskError):
        return _raised(error.cause, str(error))
    causes: tuple[tuple[tuple[type[RayError], ...], Cause], ...] = (
        ((exceptions.OutOfMemoryError,), Cause.MEMORY),
        ((exceptions.WorkerCrashedError,), Cause.WORKER),
        (
            (
                exceptions.NodeDiedError,
                exceptions.ObjectLostError,  # of a result that lay on it
                exceptions.GetTimeoutError,
                exceptions.RpcError,
                exceptions.RaySystemError,  # a worker that could not be started
            ),
            Cause.NODE,
        ),
    )
    cause = next((cause for kinds, cause in causes if isinstance(error, kinds)), Cause.CALL)
    return Failure(cause, f"{type(error).__name__}: {_first_line(error)}")


def _raised(error: Exception, told: str) -> Failure:
    """Give cause and words for an error that was raised in a worker outside of any slice."""
    if isinstance(error, SharedFolderError):
        raise error
    if isinstance(error, TransientIOError):
        return Failure(Cause.STORAGE, str(error))
    return Failure(Cause.CALL, str(error) if isinstance(error, NanotokError) else told)


def _first_line(error: Exception) -> str:
    line = str(error).strip().partition("\n")[0]
    return line if len(line) <= SHOWN_CHARS else f"{line[:SHOWN_CHARS]} ..."
