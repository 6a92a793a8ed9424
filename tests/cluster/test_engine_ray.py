"""The engine on a real local Ray: workers that die, storage that fails, calls that hang."""

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nanotok_ray.cluster import RayExecutor
from nanotok_ray.errors import SharedFolderError, TransientIOError
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
    """Return whether nobody was here before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die_once(marker):
    if marker.endswith("!") and is_first(marker):
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def die(argument):
    if argument == "fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def fail_twice(markers):
    for marker in markers:
        if is_first(marker):
            raise TransientIOError("slow down")
    return 1


def hang_once(marker):
    while marker and is_first(marker):
        while True:
            time.sleep(0.05)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_worker_that_dies_in_a_call_of_many_slices_costs_none_of_them(tmp_path):
    markers = [str(tmp_path / name) for name in ("a", "b", "c!", "d")]
    notes = []
    ended = list(
        RayExecutor().run(tasks_of(die_once, markers), retry_policy=QUICK, on_note=notes.append)
    )
    assert sorted(each.task.argument for each in ended) == markers
    assert [each.result for each in ended] == [1] * 4
    assert {each.attempts for each in ended} == {2}
    assert len(notes) == 1
    assert "slice 0 and 3 more, 4 slices: its worker process died" in notes[0]


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_slice_that_always_kills_its_worker_is_found_and_costs_no_other():
    told = []
    tasks = tasks_of(die, ["a", "fatal", "c", "d"])
    [failed] = run_stage(
        "count", tasks, num_done=0, on_event=told.append, max_skipped=1, executor=RayExecutor()
    )
    assert (failed.task.inputs_text, failed.attempts) == ("/in/1.gz", 4)
    assert "its worker process died 3 times with this slice alone" in failed.error
    assert told[-1].num_bytes == 3
    assert len([event for event in told if isinstance(event, Note)]) == 4


@pytest.mark.usefixtures("shared_ray")
def test_storage_that_fails_twice_is_waited_for(tmp_path):
    arguments = [[str(tmp_path / name) for name in names] for names in ("ab", "", "cd")]
    ended = list(RayExecutor().run(tasks_of(fail_twice, arguments), retry_policy=QUICK))
    assert sorted((each.task.name, each.attempts, each.error) for each in ended) == [
        ("slice 0", 3, None),
        ("slice 1", 1, None),
        ("slice 2", 3, None),
    ]


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_call_that_hangs_is_overtaken_by_a_second_attempt(tmp_path):
    marker = str(tmp_path / "hung")
    tasks = [*tasks_of(hang_once, [marker]), *tasks_of(die, ["a", "b"])]
    tasks = [replace(task, num_bytes=LEAST_BYTES) for task in tasks]  # each in a call of its own
    notes = []
    retry_policy = RetryPolicy(overdue_floor=scaled(0.3))
    ended = list(RayExecutor().run(tasks, retry_policy=retry_policy, on_note=notes.append))
    assert [each.error for each in ended] == [None] * 3
    assert {each.task.argument: each.attempts for each in ended} == {marker: 2, "a": 1, "b": 1}
    assert notes == ["slice 0 takes long and gets a speculative attempt"]


def hang_for_good_once(marker):
    """Hang as native code does, which no interrupt ends."""
    while marker and is_first(marker):
        Path(f"{marker}.pid").write_text(str(os.getpid()))
        while True:
            with suppress(KeyboardInterrupt):
                time.sleep(0.05)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_call_that_was_overtaken_and_hangs_for_good_gives_its_cpu_back(tmp_path):
    marker = str(tmp_path / "hung")
    tasks = [*tasks_of(hang_for_good_once, [marker]), *tasks_of(die, ["a", "b"])]
    tasks = [replace(task, num_bytes=LEAST_BYTES) for task in tasks]
    retry_policy = RetryPolicy(overdue_floor=scaled(0.3))
    assert [each.error for each in RayExecutor().run(tasks, retry_policy=retry_policy)] == [
        None
    ] * 3
    pid = Path(f"{marker}.pid").read_text()
    while Path(f"/proc/{pid}").exists():  # else the time limit ends the test
        time.sleep(0.01)


def hang(argument):
    while argument == "hung":
        time.sleep(0.01)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_slice_all_of_whose_attempts_hang_is_given_up_by_name_and_costs_no_other():
    retry_policy = replace(QUICK, deadline=1.0)
    first, hung, last = tasks_of(hang, ["a", "hung", "c"])
    large = [replace(task, num_bytes=60 << 30) for task in (first, last)]  # have a minute each
    tasks = [large[0], hung, large[1]]
    ended = {each.task.name: each for each in RayExecutor().run(tasks, retry_policy=retry_policy)}
    assert [ended[f"slice {number}"].error for number in (0, 2)] == [None, None]
    failed = ended["slice 1"]
    assert failed.attempts == 2
    assert failed.error.startswith("it was given up 2 times (it ran for over 1 s")


@pytest.mark.usefixtures("shared_ray")
def test_an_argument_that_no_worker_can_read_fails_its_own_slice_alone():
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
def test_a_worker_that_does_not_see_the_folder_ends_the_stage():
    shared = (SharedFolder(url="memory://of-each-process", probes="probe"),)
    tasks = [Task(name="slice", work=die, argument="", num_bytes=0, shared=shared)]
    with pytest.raises(SharedFolderError, match="memory://of-each-process is not one folder"):
        list(RayExecutor().run(tasks, retry_policy=QUICK))
