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
    steps = [
        (raises(SourceError("a.gz is torn")), None),
        (raises(TransientIOError("no route")), None),
        (raises(PanicError("at the disco")), None),
        (raises(OSError(28, "No space left")), None),
        (len, "four"),
    ]
    outcomes = run_batch(steps, [])
    assert [each.failure and each.failure.cause for each in outcomes] == [
        Cause.ERROR,
        Cause.STORAGE,
        Cause.ERROR,
        Cause.ERROR,
        None,
    ]
    assert outcomes[0].failure.text == "a.gz is torn"
    assert "PanicError: at the disco" in outcomes[2].failure.text
    assert "in work" in outcomes[2].failure.text
    assert outcomes[4].result == 4
    assert outcomes[4].seconds >= 0


def test_errors_of_the_machine_are_one_line_without_a_traceback():
    [outcome] = run_batch(
        [(raises(PermissionError(13, "Permission denied", "/data/out")), None)], []
    )
    assert outcome.failure.text.startswith("/data/out: Permission denied; ")
    assert "\n" not in outcome.failure.text


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
