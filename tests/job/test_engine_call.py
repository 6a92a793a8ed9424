"""The work of a worker: each slice has its own outcome; none runs if other files are visible."""

import pytest

from nanotok_ray.errors import SharedFolderError, SourceError, TransientIOError
from nanotok_ray.job import Cause, run_batch
from nanotok_ray.job.probes import Probe


class PanicError(BaseException):
    """A panic as native code raises it."""


def raises(error):
    def work(argument):
        raise error

    return work


def test_a_slice_that_raises_does_not_stop_the_others():
    errors = (
        SourceError("a.gz is torn"),
        TransientIOError("no route"),
        PanicError("at the disco"),
        OSError(28, "No space left"),
        PermissionError(13, "Permission denied", "/data/out"),
    )
    outcomes = run_batch([*((raises(error), None) for error in errors), (len, "four")], [])
    causes = [each.failure and each.failure.cause for each in outcomes]
    assert causes == [Cause.ERROR, Cause.STORAGE, Cause.ERROR, Cause.ERROR, Cause.ERROR, None]
    assert outcomes[0].failure.text == "a.gz is torn"
    assert "PanicError: at the disco" in outcomes[2].failure.text
    assert "in work" in outcomes[2].failure.text
    assert outcomes[4].failure.text.startswith("/data/out: Permission denied; ")
    assert "\n" not in outcomes[4].failure.text  # no traceback
    assert outcomes[5].result == 4
    assert outcomes[5].seconds >= 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_cancellation_is_not_a_failure_of_a_slice(error):
    with pytest.raises(error):
        run_batch([(raises(error()), None)], [])


def test_nothing_runs_where_the_folder_is_a_different_one(tmp_path):
    done = []
    probe = Probe(str(tmp_path), "run/probe/a", "token", waits=(0.0,))
    with pytest.raises(SharedFolderError, match="does not see what the job wrote there"):
        run_batch([(done.append, 1)], [probe])
    assert done == []
