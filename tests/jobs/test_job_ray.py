"""Whole jobs on a real local Ray; a worker killed before its record is written changes no byte."""

import json
import os
import signal

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from nanotok_ray.job import count_work, tokenize_work, use_executor
from nanotok_ray.storage import Folder
from tests.support.executors import on_ray_with
from tests.support.finished_output import finished_output
from tests.support.small_corpus import contents, recipe, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def dying_once(work, marker):
    """Wrap a task so that its first attempt dies after its files, before its record."""

    def run(argument):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return work(argument)

        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        Folder.write_whole = die
        return work(argument)

    return run


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_killed_worker_changes_no_byte(tmp_path):
    write_corpus(tmp_path / "in")
    layouts = 'output.layouts=["raw", "datatrove"]'
    prepare(recipe(tmp_path / "in", tmp_path / "quiet", layouts))
    marks = [tmp_path / "count-died", tmp_path / "tokenize-died"]
    works = {
        work: dying_once(work, str(mark))
        for work, mark in zip([count_work, tokenize_work], marks, strict=True)
    }
    with use_executor(on_ray_with(works)):
        prepare(recipe(tmp_path / "in", tmp_path / "disturbed", layouts))
    assert all(mark.exists() for mark in marks)
    assert contents(tmp_path / "disturbed") == contents(tmp_path / "quiet")
    assert contents(tmp_path / "disturbed-work") == contents(tmp_path / "quiet-work")


@pytest.mark.usefixtures("shared_ray")
def test_verification_on_ray_equals_local_verification(tmp_path, capsys):
    out = finished_output(tmp_path)
    path = min(out.glob("web/train/*.bin"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    assert main(["verify", str(out), "--deep"]) == 4
    here = json.loads(capsys.readouterr().out)
    assert main(["verify", str(out), "--deep", "--cpus", "2"]) == 4
    assert json.loads(capsys.readouterr().out) == here
    assert [path.name in problem for problem in here["problems"]] == [True]
    assert 0 < here["sampled"] < here["documents"] == 150
