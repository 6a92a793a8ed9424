"""The executor of tasks: Ray by default, or another one for the whole process."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nanotok_ray.cli import main
from nanotok_ray.job import current_executor, executor_in_use, use_executor
from tests.support.executors import InProcess
from tests.support.small_corpus import RECIPE, write_corpus


def test_contexts_can_be_nested_and_outside_of_them_there_is_no_executor():
    outer, inner = InProcess(), InProcess()
    with use_executor(outer):
        with use_executor(inner):
            assert current_executor() is inner
        assert current_executor() is outer
    assert executor_in_use() is None
    with pytest.raises(RuntimeError, match=r"nanotok_ray\.api"):
        current_executor()


def test_threads_see_an_executor_that_was_set_after_they_started():
    with ThreadPoolExecutor(max_workers=1) as pool:
        assert pool.submit(executor_in_use).result() is None
        with use_executor(InProcess()):
            assert pool.submit(current_executor).result() is current_executor()


def test_every_command_with_tasks_runs_them_on_the_executor(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test simulates a power failure
    write_corpus(tmp_path / "in")
    path, out = tmp_path / "recipe.toml", tmp_path / "out"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=out))
    sessions, tasks = set(), []

    def note(*, cpus, shared=()):
        sessions.add((cpus, *(folder.url for folder in shared)))

    def order(given):
        tasks.append({task.name.split()[0] for task in given})
        return given

    with use_executor(InProcess(order=order, on_session=note)):
        for command in (
            ["prepare", str(path), "--cpus", "3"],
            ["verify", str(out), "--cpus", "4"],
            ["export", str(out), "--to", "raw", "--cpus", "5"],
        ):
            assert main(command) == 0, capsys.readouterr().err
    assert sessions == {(3, str(out), str(tmp_path / "out-work")), (4,), (5,)}
    assert tasks == [{"count"}, {"tokenize"}, {"verify"}, {"export"}]
