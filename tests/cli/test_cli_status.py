"""`nanotok status`: every state, made of real files, with its exit code."""

import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.api import prepare
from nanotok_ray.cli import main, status
from nanotok_ray.cli.status import read_status
from nanotok_ray.errors import SliceError, TransientIOError
from nanotok_ray.formats import to_values
from nanotok_ray.job.events import StageStarted, ignore
from nanotok_ray.job.holder import Holder
from nanotok_ray.job.journal import segment_name
from nanotok_ray.job.journal_writer import Journal
from nanotok_ray.job.lease import Clock, lease_name, leased, take
from nanotok_ray.recipe import load_recipe
from nanotok_ray.storage import Folder

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_800_000_000.0
ELSEWHERE = Holder(host="elsewhere", pid=7, ray_job="02000000")


@pytest.fixture
def out(tmp_path):
    return Folder(str(tmp_path / "out"))


def seen(out, *, at=NOW):
    """Read the JSON of the status at a given time."""
    return to_values(status_at(out, at))


def status_at(out, at=NOW):
    return read_status(out.url, show=lambda _: None, clock=Clock(wall=lambda: at))


def hold(out, *, at, me=ELSEWHERE, state="held"):
    """Write a lease of another holder at a given time."""
    lease = take(out, command="prepare", on_event=ignore, me=me)
    values = json.loads(out.read_bytes(lease_name(lease.number)))
    values |= {"renewed": datetime.fromtimestamp(at, timezone.utc).isoformat(), "state": state}
    out.write_bytes(lease_name(lease.number), json.dumps(values).encode())


def journal(out, *rows, run=1):
    own = Journal(out, run)
    own.begin()
    for row in rows:
        own.add(row)
    assert own.close() is None


HEAD = {"event": "run", "at": NOW - 100, "command": "prepare", "host": "elsewhere", "pid": 7}
COUNT = {"event": "stage", "at": NOW - 90, "name": "count", "todo": 4, "kept": 1}
COUNT |= {"num_bytes": 4000}
ONE = {"event": "slice", "stage": "count", "began": 0.0, "seconds": 1.0, "num_bytes": 10**6}
ONE |= {"worker": "a/1", "attempts": 1, "estimate": 1000}


def test_a_missing_output_has_no_status(out, run):
    for options, words in ([], "check the path"), (["--json"], ""):
        code, values, text = run("status", out.url, *options)
        assert (code, values["state"], words in text) == (4, "nothing", True)
    assert text == ""
    assert not Path(out.url).exists()


def test_a_finished_job_has_the_status_finished_with_and_without_its_journal(job, out, run):
    assert run("prepare", job[0])[0] == 0
    code, values, text = run("status", out.url)
    assert (code, values["state"], values["published"]) == (0, "finished", True)
    assert [stage["state"] for stage in values["stages"]] == ["done"] * 5
    assert values["documents"] == {"in": 150, "out": 150, "quarantined": 0}
    assert "150 in, 150 out" in text
    assert "next" not in text
    for name in out.list("run/"):
        out.remove(name)
    assert seen(out)["state"] == "finished"
    hold(out, at=NOW - 1000, state="released")
    assert seen(out)["state"] == "finished"


def test_a_plan_without_a_run_is_planned_and_training_alone_is_finished(job, out, run):
    assert run("plan", job[0])[0] == 0
    code, values, _ = run("status", out.url)
    assert (code, values["state"]) == (4, "never run")
    assert run("train", job[0])[0] == 0
    code, values, text = run("status", out.url)
    assert (code, values["state"]) == (0, "trained")
    assert "nanotok tokenize RECIPE" in text


@pytest.mark.parametrize(
    ("error", "state"), [(SliceError("web is bad"), "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_the_end_of_a_run_is_reported(job, out, run, error, state):
    def listen(event):
        if isinstance(event, StageStarted) and event.stage == "tokenize":
            raise error

    with pytest.raises((SliceError, KeyboardInterrupt)):
        prepare(load_recipe(job[0]), on_event=listen)
    code, values, text = run("status", out.url)
    assert (code, values["state"], values["published"]) == (4, state, False)
    assert values["stages"][-1] == values["stages"][-1] | {"name": "tokenize", "state": "stopped"}
    assert "run the same command again" in text
    assert state != "failed" or "web is bad" in text


def test_a_run_on_another_host_is_running_while_it_renews_its_lease(out):
    hold(out, at=NOW - 20)
    journal(out, HEAD, COUNT)
    assert seen(out)["silent_seconds"] == 20.0
    reported = [seen(out, at=NOW + after)["state"] for after in (0, 40, 41)]
    assert reported == ["running", "running", "dead"]
    assert "was not renewed for 61 s by this machine's clock" in seen(out, at=NOW + 41)["why"]


def test_a_run_reports_its_progress_and_the_remaining_work(out, run):
    hold(out, at=NOW)
    sizes = {"count": 4000, "learn": 0, "tokenize": 20_000, "verify": 0}
    stages = [{"name": name, "num_bytes": size, "seconds": None} for name, size in sizes.items()]
    plan = {"event": "plan", "at": NOW - 91, "stages": stages}
    attempt = {"event": "attempt", "at": NOW - 70, "stage": "count", "name": "web/7"}
    attempt |= {"slices": 3, "cause": "its node went away", "text": "gone\nfor good"}
    rows = [{**ONE, "name": str(number), "at": NOW - 60 + 30 * number} for number in range(2)]
    journal(out, {**HEAD, "cpus": 2, "nodes": 1}, plan, COUNT, attempt, *rows)
    values = seen(out)
    stage = values["stages"][0]
    assert (stage["done"], stage["todo"], stage["state"]) == (2, 4, "running")
    assert stage["position"] == "1 of 4"
    assert stage["seconds_left"] == pytest.approx(60 * 2000 / 2000 - 30)
    assert stage["megabytes_per_second"] == pytest.approx(2 / 60, abs=1e-3)
    left = stage["seconds_left"] + 20_000 / (stage["bytes"] / 60)
    assert stage["whole_job"] == {"seconds": pytest.approx(left), "is_least": True}
    assert values["failed_attempts"] == {"its node went away": 3}
    assert seen(out, at=NOW + 60)["stages"][0]["seconds_left"] is None  # the estimate has expired
    _, _, text = run("status", out.url)
    count = "count       stage 1 of 4: 2 of 4 slices (1 more done before), "
    for word in ("prepare on host elsewhere, process 7", count, "(whole job: over ", "web/7: gone"):
        assert word in text


def test_nothing_is_estimated_of_a_run_that_missed_a_renewal(out):
    hold(out, at=NOW)
    rows = [{**ONE, "name": str(number), "at": NOW - 1 + number} for number in range(2)]
    journal(out, {**HEAD, "cpus": 1, "nodes": 1}, COUNT, *rows)
    for after, has_estimate in (0, True), (20, True), (22, False), (59, False):
        values = seen(out, at=NOW + after)
        assert (values["state"], values["stages"][0]["state"]) == ("running", "running")
        assert (values["stages"][0]["seconds_left"] is not None) == has_estimate
        assert ("may be dead" in values["why"]) != has_estimate


def test_a_running_run_reports_the_current_size_of_its_cluster(out):
    later = {"event": "cluster", "at": NOW - 50, "cpus": 48, "nodes": 4}
    hold(out, at=NOW, state="released")
    journal(out, {**HEAD, "cpus": 2, "nodes": 3}, COUNT, later, END)
    assert "2 CPUs of 3 nodes" in "\n".join(status.status_lines(status_at(out)))
    hold(out, at=NOW)
    journal(out, {**HEAD, "cpus": 2, "nodes": 3}, COUNT, later, {**later, "cpus": True}, run=2)
    assert "48 CPUs of 4 nodes" in "\n".join(status.status_lines(status_at(out)))


END = {"event": "end", "at": NOW - 900, "status": "failed", "error": "x"}


def test_a_later_command_does_not_hide_how_the_run_ended_but_a_later_run_does(out):
    hold(out, at=NOW - 1000, state="released")
    journal(out, HEAD, COUNT, END)
    assert seen(out)["state"] == "failed"
    with leased(out, command="gc", on_event=ignore):
        pass
    assert seen(out)["state"] == "failed"
    hold(out, at=NOW)
    values = seen(out)
    assert (values["state"], values["stages"], values["host"]) == ("running", [], "elsewhere")


def test_a_run_between_two_leases_is_running(out):
    hold(out, at=NOW, state="released")
    journal(out, {**HEAD, "at": NOW - 5})
    assert [seen(out, at=NOW + after)["state"] for after in (0, 100)] == ["running", "unfinished"]


@pytest.mark.parametrize(
    ("at", "me", "silent", "why"),
    [
        (NOW + 5000, ELSEWHERE, 0.0, ""),
        (NOW - 5000, Holder.this_process(), 5000.0, "its process is alive on this machine"),
    ],
    ids=["the clock of another host is ahead", "this process is silent"],
)
def test_a_holder_that_may_be_alive_is_running(out, at, me, silent, why):
    hold(out, at=at, me=me)
    values = seen(out)
    assert (values["state"], values["silent_seconds"], values["why"]) == ("running", silent, why)


KILLED = """
import sys
from nanotok_ray.job.events import ignore
from nanotok_ray.job.lease import leased
from nanotok_ray.storage import Folder
with leased(Folder(sys.argv[1]), command="prepare", on_event=ignore):
    print("there", flush=True)
    sys.stdin.read()
"""


def test_a_killed_run_is_dead(out, run):
    command = [sys.executable, "-c", KILLED, out.url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
        assert process.stdout.readline() == "there\n"
        code, values, _ = run("status", out.url)
        assert (code, values["state"], values["pid"]) == (0, "running", process.pid)
        process.kill()
        process.wait()
        code, values, text = run("status", out.url)
    assert (code, values["state"]) == (4, "dead")
    assert "its process has ended without releasing the output" in text


def test_watch_ends_with_the_run_and_survives_temporary_storage_failures(out, monkeypatch, capsys):
    hold(out, at=NOW)
    now, looks, exists = [NOW], [], Folder.exists

    def exists_or_fails(self, name):
        if now[0] == NOW + 10:
            raise TransientIOError("slow down")
        return exists(self, name)

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(Folder, "exists", exists_or_fails)
    values = read_status(
        out.url, watch=True, show=looks.append, clock=Clock(wall=lambda: now[0], sleep=sleep)
    )
    assert values.state == "dead"
    assert [each.silent_seconds for each in looks] == [0, 20, 30, 40, 50, 60, 70]
    assert "slow down" in capsys.readouterr().err


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda own: st.lists(own, max_size=2) | st.dictionaries(st.text(max_size=3), own, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from(["run", "stage", "slice", "attempt", "progress", "stage end", "end", "no"])
CHANGES = st.dictionaries(
    st.sampled_from(
        [*HEAD, *COUNT, *ONE, "status", "error", "failed_attempts", "cpus", "nodes", "text"]
    ),
    VALUES,
    max_size=3,
)
LINES = st.lists(
    st.tuples(st.sampled_from([HEAD, COUNT, ONE | {"name": "a", "at": NOW - 9}]), CHANGES, KINDS)
)


@given(LINES, CHANGES, st.booleans(), st.binary(max_size=9))
def test_any_file_content_yields_a_status(lines, lease, is_valid, data):
    out = Folder("memory://status-hostile")
    rows = [{**row, "event": kind} | changes for row, changes, kind in lines]
    out.write_bytes(segment_name(1, 0), "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    out.write_bytes(segment_name(1, 1), data)
    reported = {"format": "nanotok-lease 1", "holder": lease, "renewed": lease.get("at")}
    own = json.dumps({**reported, **lease}).encode() if is_valid else data
    out.write_bytes(lease_name(1), own)
    out.write_bytes("manifest.json", json.dumps({"totals": {"all": lease}}).encode())
    values = seen(out)
    json.dumps(values)
    assert main(["status", out.url]) in {0, 4}


def test_with_a_recipe_status_lists_the_remaining_work(job, run):
    path, out = job
    assert run("prepare", path)[0] == 0
    min(out.glob("records/tokenize/*/*/*.json")).unlink()
    _, values, text = run("status", path)
    assert (values["state"], values["output"]) == ("finished", str(out))
    assert [values["plan"][stage]["todo"] for stage in ("count", "learn", "tokenize")] == [0, 0, 1]
    assert "tokenize    1 to do" in text
    _, again, text = run("status", path, "--json")
    assert (again["plan"], text) == (values["plan"], "")
