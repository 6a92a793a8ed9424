"""Attempts in a worker, and the cause of each of their errors."""

import pytest
from ray import exceptions

from nanotok_ray.cluster.ray_executor import failure_of
from nanotok_ray.errors import NodeError, SharedFolderError, SourceError, TransientIOError
from nanotok_ray.job.probes import Probe
from nanotok_ray.job.task import Cause, SharedLibrary
from nanotok_ray.job.worker_pool import run_attempt

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
    unfit = failure_of(raised(SharedFolderError("not one folder")))
    assert (unfit.cause, unfit.text) == (Cause.UNFIT, "not one folder")
    assert isinstance(unfit.raised, SharedFolderError)


class PanicError(BaseException):
    """A panic as native code raises it."""


def raises(error):
    def work(argument):
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "cause", "text"),
    [
        (SourceError("a.gz is torn"), Cause.ERROR, "a.gz is torn"),
        (TransientIOError("no route"), Cause.STORAGE, "no route"),
        (PanicError("at the disco"), Cause.ERROR, "PanicError: at the disco"),
        (OSError(28, "No space left"), Cause.ERROR, "No space left"),
        (PermissionError(13, "Permission denied", "/out"), Cause.SETUP, "/out: Permission denied"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_a_task_raises_is_its_failure_with_a_cause(error, cause, text):
    failure = run_attempt(raises(error), None, []).failure
    assert failure.cause is cause
    assert text in failure.text
    has_traceback = isinstance(error, PanicError) or text == "No space left"
    assert ("in work" in failure.text) is has_traceback


def test_an_attempt_returns_the_result_of_its_task_and_its_time():
    outcome = run_attempt(len, "four", [])
    assert (outcome.result, outcome.failure) == (4, None)
    assert outcome.seconds >= 0


class NoCredentialsError(Exception):
    """Like the error of botocore, which no other class tells."""


def caused_by(cause, error):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "/in/a.gz"),
        ModuleNotFoundError("No module named 'gcsfs'"),
        NoCredentialsError("Unable to locate credentials"),
        caused_by(FileNotFoundError(2, "No such file"), SourceError("cannot read /in/a.gz")),
        caused_by(caused_by(ImportError("s3fs"), ValueError("s3")), SourceError("install s3fs")),
    ],
    ids=["file", "package", "credentials", "cause", "cause of a cause"],
)
def test_an_error_that_another_node_may_not_have_is_told_apart(error):
    outcome = run_attempt(raises(error), None, [])
    assert outcome.failure.cause is Cause.SETUP


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_cancellation_is_not_a_failure_of_a_slice(error):
    with pytest.raises(error):
        run_attempt(raises(error()), None, [])


def test_nothing_runs_where_the_folder_is_a_different_one(tmp_path):
    done = []
    probe = Probe(str(tmp_path), "run/probe/a", "token", waits=(0.0,))
    with pytest.raises(SharedFolderError, match="does not see what the job wrote there"):
        run_attempt(done.append, 1, [probe])
    assert done == []


@pytest.mark.parametrize("version", ["tokenizers 0.0.9", "no_such_library 1.0"])
def test_nothing_runs_where_the_library_that_encodes_is_another_one(version):
    done = []
    name = version.split()[0]
    with pytest.raises(NodeError, match=rf"found .*{name} .*; install {version} on every node"):
        run_attempt(done.append, 1, [SharedLibrary(version)])
    assert done == []
