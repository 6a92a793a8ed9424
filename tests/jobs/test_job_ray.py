"""Jobs on a local Ray, also on S3."""

import json
import os
import signal

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.storage import Folder
from tests.jobs.chaos_s3 import paused
from tests.support.executors import in_place_of_ray, on_ray_with
from tests.support.faulty_proxy import Fault
from tests.support.finished_output import finished_output
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.small_corpus import contents, joined_shards, recipe, write_corpus

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

        Folder.write_bytes = die
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
    with in_place_of_ray(on_ray_with(works)):
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


LARGE = "limits.slice_bytes=15000"


def test_a_job_on_s3_with_ray_writes_what_it_writes_on_a_disk(tmp_path):
    write_corpus(tmp_path / "in")
    with s3_behind_a_proxy() as proxy, ray_session(cpus=2):
        bucket = Folder(f"s3://{BUCKET}/job")
        for path in (tmp_path / "in").rglob("*.*"):
            bucket.write_bytes(f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
        faults = [Fault.RESET, Fault.SLOW_DOWN, Fault.RESET_AFTER, Fault.TRUNCATE]
        proxy.fail_always(*faults, period=29)
        with paused(proxy, at=200, seconds=1.5) as reported:
            prepare(recipe(f"{bucket.url}/in", f"{bucket.url}/out", LARGE))
        assert reported == ["paused for 1.5 s at request 200"]
        assert set(proxy.faults) == set(faults)
        proxy.clear()
        prepare(recipe(tmp_path / "in", tmp_path / "out", LARGE))
        assert joined_shards(Folder(bucket.join("out"))) == joined_shards(
            Folder(str(tmp_path / "out"))
        )
