"""The engine on a real local Ray: workers that die, storage that fails, calls that hang."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nanotok_ray.cluster import RayExecutor
from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job import Note, RetryPolicy, SharedFolder, Task, run_stage
from nanotok_ray.job.scheduler import LEAST_BYTES
from tests.support.machine_speed import scaled

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

QUICK = RetryPolicy(first_wait=0.01, longest_wait=0.02)


def tasks_of(work, arguments):
    return [
        Task(
            name=f"slice {number}",
            work=work,
            argument=argument,
            num_bytes=0,
            inputs=(f"/in/{number}.gz",),
        )
        for number, argument in enumerate(arguments)
    ]


def is_first(marker):
    """Return whether this is the first call with a marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die(argument):
    if argument == "fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_slice_that_always_kills_its_worker_fails_alone():
    reported = []
    tasks = tasks_of(die, ["a", "fatal", "c", "d"])
    [failed] = run_stage(
        "count", tasks, num_done=0, on_event=reported.append, max_skipped=1, executor=RayExecutor()
    )
    assert (failed.task.inputs_text, failed.attempts) == ("/in/1.gz", 4)
    assert "its worker process died 3 times with this slice alone" in failed.error
    assert reported[-1].num_bytes == 3
    assert len([event for event in reported if isinstance(event, Note)]) == 4


def hang_for_good_once(marker):
    """Hang like native code, which no interrupt ends."""
    while marker and is_first(marker):
        Path(f"{marker}.pid").write_text(str(os.getpid()))
        while True:
            with suppress(KeyboardInterrupt):
                time.sleep(0.05)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_an_overtaken_call_that_hangs_releases_its_cpu(tmp_path):
    marker = str(tmp_path / "hung")
    tasks = [*tasks_of(hang_for_good_once, [marker]), *tasks_of(die, ["a", "b"])]
    tasks = [replace(task, num_bytes=LEAST_BYTES) for task in tasks]
    retry_policy = RetryPolicy(overdue_floor=scaled(0.3))
    assert [each.error for each in RayExecutor().run(tasks, retry_policy=retry_policy)] == [
        None
    ] * 3
    pid = Path(f"{marker}.pid").read_text()
    while Path(f"/proc/{pid}").exists():  # otherwise the time limit ends the test
        time.sleep(0.01)


@pytest.mark.usefixtures("shared_ray")
def test_an_argument_that_cannot_be_unpickled_fails_its_own_slice():
    ended = list(RayExecutor().run(tasks_of(die, ["a", Unreadable(), "c"]), retry_policy=QUICK))
    assert {each.task.name: bool(each.error) for each in ended} == {
        "slice 0": False,
        "slice 1": True,
        "slice 2": False,
    }
    assert "nobody can read this" in next(each.error for each in ended if each.error)


class Unreadable:
    def __reduce__(self):
        return (refuse, ())


def refuse():
    raise ValueError("nobody can read this")


@pytest.mark.usefixtures("shared_ray")
def test_a_worker_without_access_to_the_folder_ends_the_stage():
    shared = (SharedFolder(url="memory://of-each-process", probes="probe"),)
    tasks = [Task(name="slice", work=die, argument="", num_bytes=0, shared=shared)]
    with pytest.raises(SharedFolderError, match="memory://of-each-process is not one folder"):
        list(RayExecutor().run(tasks, retry_policy=QUICK))
