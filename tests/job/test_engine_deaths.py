"""The cause of each of Ray's errors: a lost node is not attributed to a slice, nor the reverse."""

import pytest
from ray import exceptions

from nanotok_ray.cluster import failure_of
from nanotok_ray.errors import SharedFolderError, SourceError, TransientIOError
from nanotok_ray.job import Cause

LONG = "it was on 10.0.0.7, " * 100


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (exceptions.WorkerCrashedError(), Cause.WORKER, "WorkerCrashedError: The worker died"),
        (exceptions.NodeDiedError(f"{LONG}\nand"), Cause.NODE, "NodeDiedError: it was on 10.0.0.7"),
        (exceptions.ObjectLostError("ab", None, ""), Cause.NODE, "ObjectLostError: "),
        (exceptions.GetTimeoutError("late"), Cause.NODE, "GetTimeoutError: late"),
        (exceptions.RaySystemError("no worker"), Cause.NODE, "RaySystemError: "),
        (exceptions.OutOfMemoryError("95 %"), Cause.MEMORY, "OutOfMemoryError: 95 %"),
        (exceptions.RuntimeEnvSetupError("no wheel"), Cause.CALL, "RuntimeEnvSetupError: "),
        (exceptions.TaskCancelledError(), Cause.CALL, "TaskCancelledError: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_of_ray_are_classified(error, cause, text):
    failure = failure_of(error)
    assert failure.cause is cause
    assert failure.text.startswith(text)
    assert "\n" not in failure.text
    assert len(failure.text) < 400


def raised(error):
    """Wrap an error like Ray does if it was raised in a worker outside any slice."""
    return exceptions.RayTaskError("run_call", "Traceback: ...", error)


def test_errors_in_a_worker_outside_of_a_slice_are_classified():
    torn = failure_of(raised(SourceError("torn")))
    assert (torn.text, torn.cause) == ("torn", Cause.CALL)
    assert failure_of(raised(TransientIOError("for now"))).cause is Cause.STORAGE
    assert "Traceback: ..." in failure_of(raised(TypeError("no"))).text
    with pytest.raises(SharedFolderError, match="not one folder"):
        failure_of(raised(SharedFolderError("not one folder")))
