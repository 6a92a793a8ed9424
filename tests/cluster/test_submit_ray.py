"""`nanotok submit` on a real head with token authentication, and its exit codes."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from nanotok_ray.loader import open_shards
from tests.support.gated_driver import num_done
from tests.support.gated_prepare import write_jobs
from tests.support.ray_head import BIN, write_demo

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "jobs/recipes/demo.toml"


@pytest.fixture
def head(shared_head):
    return shared_head


@pytest.fixture
def demo(tmp_path):
    return write_demo(tmp_path)


def command(head, demo, *arguments):
    own = ("submit", RECIPE, "--env", f"NANOTOK_DEMO_DIR={demo}", "--address", head.dashboard)
    return [BIN / "nanotok", *own, *arguments]


def submit(head, demo, *arguments, environment=None):
    """Return the exit code, the last line of stdout, and stderr."""
    done = subprocess.run(
        command(head, demo, *arguments),
        env={**head.environment, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stderr


def following(head, demo, *arguments):
    """Start the command without waiting for its end."""
    return subprocess.Popen(
        command(head, demo, *arguments),
        env=head.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def files(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in sorted(folder.glob(pattern))}


def test_the_demo_succeeds_and_a_second_run_adds_new_files(head, demo):
    code, reported, err = submit(head, demo)
    assert code == 0, err
    assert (reported["status"], reported["job_status"]) == ("done", "SUCCEEDED")
    assert reported["summary"]["verified"]["slices"] == 4
    assert "Uploading" not in err
    out = demo / "out"
    assert json.loads((out / "manifest.json").read_text())["slices"] == 4
    counts, shards = files(out, "work/counts/*/*"), files(out, "*/*/*.bin")
    assert counts
    assert shards
    (first,) = (demo / "corpus/doctests").glob("*.jsonl")
    shutil.copy(first, first.with_name("chats_00001.jsonl"))
    text = min((demo / "corpus/docs").glob("*.parquet"))
    shutil.copy(text, text.with_name("shard_99999.parquet"))
    code, again, err = submit(head, demo)
    assert code == 0, err
    assert again["submission_id"] == f"{reported['submission_id']}-2"
    assert again["status"] == "done"
    assert again["summary"]["tokenizer_sha256"] == reported["summary"]["tokenizer_sha256"]
    assert again["summary"]["learned"]["of_other_inputs"]
    assert files(out, "work/counts/*/*") == counts
    now = files(out, "*/*/*.bin")
    assert shards.items() < now.items()
    assert len(open_shards(str(out), source="doctests")) == 2 * len(first.read_text().splitlines())


def test_a_failed_job_has_its_own_exit_code_and_an_id_runs_once(head, demo):
    arguments = ("--submission-id", "fails-once", "--set", "source.code.paths=/nowhere/at/all")
    code, reported, err = submit(head, demo, *arguments)
    assert code == 2
    assert (reported["status"], reported["job_status"]) == ("failed", "FAILED")
    assert (reported["exit_code"], "already_ran" in reported) == (2, False)
    assert reported["error"] == reported["summary"]["error"]
    assert "/nowhere/at/all matches no file" in reported["error"]
    assert "/nowhere/at/all matches no file" in err
    assert "pass another --submission-id" in err
    code, again, err = submit(head, demo, *arguments)
    assert (code, again) == (2, {**reported, "already_ran": True})
    assert "has already run" in err


def test_ctrl_c_leaves_the_job_running_and_a_stopped_job_is_a_failure(head, demo):
    gated = f"PYTHONPATH={write_jobs(demo / 'gated')}"
    arguments = ("--env", gated, "--set", "limits.slice_bytes=64KiB")
    process = following(head, demo, *arguments)
    while not num_done(demo / "out", demo / "out/work"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    reported = json.loads(out.splitlines()[-1])
    own = reported["submission_id"]
    assert f"ray job stop {own} --address {head.dashboard}" in err
    code, left, err = submit(head, demo, *arguments, "--timeout", "0")
    assert (code, left["status"], left["job_status"]) == (5, "timeout", "RUNNING")
    assert f"following {own}" in err
    process = following(head, demo, *arguments)
    while f"following {own}" not in process.stderr.readline():
        assert process.poll() is None
    stop = [BIN / "ray", "job", "stop", own, "--no-wait", "--address", head.dashboard]
    subprocess.run(stop, env=head.environment, check=True, capture_output=True)
    out, _ = process.communicate()
    assert process.returncode == 7
    assert json.loads(out.splitlines()[-1])["job_status"] == "STOPPED"
    assert not (demo / "out/manifest.json").exists()
