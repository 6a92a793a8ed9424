"""Verification as tasks: results in the order of the plan, reported failures, also on Ray."""

import json

import pytest

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.errors import TransientIOError
from nanotok_ray.job import Advanced, LocalExecutor, StageEnded, StageStarted, use_executor
from nanotok_ray.shards.check import check_slice
from nanotok_ray.shards.check import slice as slice_check
from nanotok_ray.storage import Folder
from tests.support.executors import FailingFirst, InProcess, Replacing, backwards
from tests.support.small_corpus import recipe, write_corpus

THREADS = LocalExecutor(in_threads=True)


@pytest.fixture
def out(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "out"))
    return tmp_path / "out"


@pytest.fixture
def on_ray():
    """Simulate Ray: tasks end in reverse order."""
    with use_executor(InProcess(order=backwards)):
        yield


@pytest.mark.parametrize("level", [{}, {"deep": True}, {"masks": True}])
def test_problems_are_in_the_order_of_the_plan(out, on_ray, level):
    for path in out.glob("*/*/*.bin"):
        path.write_bytes(b"\0" + path.read_bytes()[1:])
    here, there = (
        verify(Folder(str(out)), executor=executor, **level) for executor in (THREADS, None)
    )
    assert len(here.problems) > 5
    assert here == there


def test_progress_is_reported_as_in_other_stages(out, on_ray):
    for executor in (THREADS, None):
        events = []
        result = verify(Folder(str(out)), executor=executor, on_event=events.append)
        assert result.passed
        started, *advanced, ended = events
        assert started == StageStarted(
            stage="verify", todo=result.slices, num_done=0, num_bytes=started.num_bytes
        )
        assert isinstance(ended, StageEnded)
        assert ended.num_bytes == started.num_bytes > 0
        done = [event.done for event in advanced if isinstance(event, Advanced)]
        assert [number for number in done if number] == [*range(1, result.slices + 1)]


def test_an_unchecked_slice_is_reported_and_changes_the_exit_code(out, capsys):
    with use_executor(FailingFirst("its worker died 3 times", order=backwards)):
        assert main(["verify", str(out), "--cpus", "2"]) == 5
    captured = capsys.readouterr()
    values = json.loads(captured.out)
    assert values["status"] == "failed"
    assert values["problems"] == []
    assert "its worker died 3 times" in values["unchecked"][0]
    assert "could not be checked" in captured.err


def test_a_local_storage_failure_leaves_a_slice_unchecked(out, monkeypatch, capsys):
    def fail(*_, **__):
        raise TransientIOError("the store is away")

    monkeypatch.setattr(slice_check, "check_files", fail)
    assert main(["verify", str(out)]) == 5
    values = json.loads(capsys.readouterr().out)
    assert len(values["unchecked"]) == values["slices"]


def test_a_record_that_changes_during_the_check_is_not_valid(out):
    def check_late(work):
        with (out / work.record_name).open("a") as file:
            file.write(" ")
        return check_slice(work)

    with use_executor(Replacing({check_slice: check_late})):
        result = verify(Folder(str(out)))
    assert len(result.unchecked) == result.slices
    assert not result.passed
