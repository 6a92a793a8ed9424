"""Whole jobs on a real local Ray; a worker killed before it writes its record changes no byte."""

import json
import os
import signal

import pytest

from nanotok_ray.api import export, prepare
from nanotok_ray.cli import main
from nanotok_ray.errors import SliceError
from nanotok_ray.exports import export_unit, parse_layout
from nanotok_ray.job import count_work, tokenize_work, use_executor
from nanotok_ray.storage import Folder
from tests.support.executors import on_ray_with
from tests.support.finished_output import finished_output
from tests.support.small_corpus import contents, recipe, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


def dying_once(work, marker):
    """Wrap a task so that its first attempt anywhere dies after its files, before its record."""

    def run(argument):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return work(argument)
        from nanotok_ray.storage import Folder  # noqa: PLC0415 - runs in a worker

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
def test_a_slice_that_always_fails_fails_the_job_and_the_next_run_makes_only_that_one(
    tmp_path,
):
    write_corpus(tmp_path / "in")
    job = recipe(tmp_path / "in", tmp_path / "out")

    def fail_chats(work):
        from nanotok_ray.errors import SourceError  # noqa: PLC0415 - runs in a worker

        if work.slice.source == "chats":
            raise SourceError("this one never works")
        return tokenize_work(work)

    executor = on_ray_with({tokenize_work: fail_chats})
    with use_executor(executor), pytest.raises(SliceError, match="this one never works"):
        prepare(job)
    assert not (tmp_path / "out/manifest.json").exists()
    kept = contents(tmp_path / "out")
    assert any(name.startswith("records/tokenize/web/train/") for name in kept)
    done = []
    prepare(job, on_event=done.append)
    started = {event.stage: event for event in done if hasattr(event, "num_done")}
    assert started["tokenize"].num_done > 0
    assert started["tokenize"].todo < started["tokenize"].num_done
    after = contents(tmp_path / "out")
    assert {name: after[name] for name in kept} == kept


@pytest.mark.usefixtures("shared_ray")
def test_verification_on_ray_finds_what_it_finds_here(tmp_path, capsys):
    out = finished_output(tmp_path)
    path = min(out.glob("web/train/*.bin"))
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    assert main(["verify", str(out), "--deep"]) == 4
    here = json.loads(capsys.readouterr().out)
    assert main(["verify", str(out), "--deep", "--cpus", "2"]) == 4
    assert json.loads(capsys.readouterr().out) == here
    assert [path.name in problem for problem in here["problems"]] == [True]
    assert 0 < here["sampled"] < here["documents"] == 150


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_worker_killed_while_it_exports_changes_no_byte(tmp_path, capsys):
    out, mark = Folder(str(finished_output(tmp_path))), tmp_path / "export-died"
    export(out, parse_layout("raw"), folder=Folder(str(tmp_path / "quiet")))
    arguments = ["export", out.url, "--to", "raw", "--cpus", "2"]
    with use_executor(on_ray_with({export_unit: dying_once(export_unit, str(mark))})):
        assert main([*arguments, "--output", str(tmp_path / "disturbed")]) == 0
    assert mark.exists()
    assert contents(tmp_path / "disturbed") == contents(tmp_path / "quiet")
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["exports"][0]["units_done"] > 3
