"""Signals, scheduled jobs, and two runs of one output."""

import fcntl
import json
import os
import pty
import secrets
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.errors import LeaseLostError
from nanotok_ray.job.events import Advanced, StageEnded, StageStarted, ignore
from nanotok_ray.job.lease import lease_name, leased
from nanotok_ray.job.planning import plan_job
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.lease_elsewhere import held_elsewhere
from tests.support.machine_speed import scaled
from tests.support.run_job import run
from tests.support.small_corpus import RECIPE, contents, recipe, texts, write_corpus, write_parquet

pytestmark = [pytest.mark.timeout(180)]


class Terminal:
    """A run in a terminal; all its processes have a mark in their environment."""

    def __init__(self, root, *options, after):
        self.mark = f"NANOTOK_TEST_MARK={secrets.token_hex(8)}"
        name, _, value = self.mark.partition("=")
        self.keyboard, screen = pty.openpty()
        settings = termios.tcgetattr(screen)
        settings[3] |= termios.NOFLSH  # Ctrl-C would discard output that is not read yet
        termios.tcsetattr(screen, termios.TCSANOW, settings)
        self.answer = root / "answer"
        command = [
            sys.executable,
            "-m",
            "tests.support.gated_cli",
            root / "recipe.toml",
            str(after),
        ]
        with self.answer.open("wb") as answer:
            self.process = subprocess.Popen(
                [*command, *options],
                stdin=screen,
                stdout=answer,
                stderr=screen,
                env={**os.environ, name: value},
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no locks
            )
        os.close(screen)
        os.set_blocking(self.keyboard, False)
        self.reported = ""

    def until(self, is_so, *, seconds=60):
        """Wait, and read the screen output, so that no process waits for buffer space."""
        end = time.monotonic() + scaled(seconds)
        is_over = False
        while not is_over:
            is_over = is_so()
            with suppress(BlockingIOError, OSError):
                while data := os.read(self.keyboard, 65536):
                    self.reported += data.decode()
            assert time.monotonic() < end, self.reported
            time.sleep(0.02)

    def end(self, *, pressing=b""):
        """Wait for the end and press keys; return exit code, seconds, and the JSON on stdout."""
        start = time.monotonic()

        def has_ended():
            if pressing and self.process.poll() is None:
                os.write(self.keyboard, pressing)
            return self.process.poll() is not None

        self.until(has_ended)
        seconds = time.monotonic() - start
        return self.process.returncode, seconds, json.loads(self.answer.read_text())

    def is_gone(self):
        """Return whether no process with the mark is left."""
        return not any(map(self._is_own, Path("/proc").glob("[0-9]*")))

    def _is_own(self, path):
        with suppress(OSError):
            return self.mark.encode() in (path / "environ").read_bytes()
        return False


def type_ctrl_c(run):
    os.write(run.keyboard, b"\x03")


def send_sigterm(run):
    run.process.send_signal(signal.SIGTERM)


def counted(root):
    return len(list(root.glob("out-work/counts/*/*.json")))


@pytest.mark.parametrize("options", [pytest.param([], marks=pytest.mark.ray), ["--local"]])
def test_stopped_runs_end_soon_and_the_next_resumes(tmp_path, in_process, options):
    write_corpus(tmp_path / "in")
    text = RECIPE.format(root=tmp_path / "in", out=tmp_path / "out")
    (tmp_path / "recipe.toml").write_text(text)
    for after, stop, again, code, status in (
        (2, type_ctrl_c, b"\x03", 130, "interrupted"),
        (4, send_sigterm, b"", 143, "terminated"),
    ):
        kept = counted(tmp_path)
        run = Terminal(tmp_path, *options, after=after)
        run.until(lambda: counted(tmp_path) >= after)  # noqa: B023 - called at once
        stop(run)
        found, seconds, answer = run.end(pressing=again)
        assert (found, answer["status"]) == (code, status), run.reported
        assert seconds < scaled(10)
        assert "Traceback" not in run.reported
        assert "Exception" not in run.reported
        assert run.reported.count(f"nanotok: {status}; the same command resumes from here") == 1
        assert (f"({kept} more are done already)" in run.reported) == (kept > 0)
        run.until(run.is_gone, seconds=10)
        [lease] = tmp_path.glob("out/run/lease/*.json")
        assert json.loads(lease.read_text())["state"] == "released"
    events = []
    prepare(recipe(tmp_path / "in", tmp_path / "out"), on_event=events.append)
    [counting] = [e for e in events if isinstance(e, StageStarted) and e.stage == "count"]
    assert counting.num_done == counted(tmp_path) - counting.todo >= 4
    prepare(recipe(tmp_path / "in", tmp_path / "quiet"))
    assert contents(tmp_path / "out") == contents(tmp_path / "quiet")
    assert contents(tmp_path / "out-work") == contents(tmp_path / "quiet-work")


DEPLOY = Path(__file__).parents[2] / "deploy"


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))


FAKE_KUBECTL = """#!{python}
import pathlib, sys
here = pathlib.Path({folder!r})
with (here / "said").open("a") as said:
    said.write(" ".join(sys.argv[1:3]) + "\\n")
if sys.argv[1] == "get":
    number = (here / "said").read_text().count("get rayjob") - 1
    state = [*(here / "states").read_text().split(","), "Failed/asked too often"][number]
    print(state, end="")
    sys.exit(state == "no answer")
"""

MADE = ["create --filename"]
DELETED = ["delete rayjob"]


@pytest.mark.parametrize(
    ("states", "code", "done"),
    [
        (["", "/", "Running/RUNNING", "Complete/SUCCEEDED"], 0, MADE),
        (["no answer"], 1, []),
        (["", "Failed/FAILED"], 1, MADE),
        (["", "Failed/"], 1, MADE),
        (["", "Complete/STOPPED"], 1, MADE),
        (["", "ValidationFailed/"], 1, MADE),
        (["", "Running/RUNNING", ""], 1, MADE),
        (["", "no answer", "Retrying/FAILED", "Complete/SUCCEEDED"], 0, MADE),
        (["Complete/SUCCEEDED", "/", "Complete/SUCCEEDED"], 0, DELETED + MADE),
        (["Failed/FAILED", "/", "Complete/SUCCEEDED"], 0, DELETED + MADE),
        (["Running/RUNNING", "Running/RUNNING", "Complete/SUCCEEDED"], 0, []),
        (["Initializing/", "Failed/"], 1, []),
    ],
    ids=lambda own: "-".join(own) if isinstance(own, list) else str(own),
)
def test_the_pod_of_the_cron_job_makes_one_run_and_reports_its_end(tmp_path, states, code, done):
    pod = documents("cronjob")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(FAKE_KUBECTL.format(python=sys.executable, folder=str(tmp_path)))
    kubectl.chmod(0o755)
    (tmp_path / "states").write_text(",".join(states))
    ended = subprocess.run(
        [*container["command"], *container["args"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PAUSE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=scaled(50),
    )
    assert ended.returncode == code, ended
    said = (tmp_path / "said").read_text().splitlines()
    assert [own for own in said if own != "get rayjob"] == done
    assert said.count("get rayjob") == len(states)


def test_the_cron_job_has_exactly_the_permissions_of_its_script():
    account, role, binding, cron = documents("cronjob")
    verbs: dict[str, set[str]] = {}
    for rule in role["rules"]:
        assert (rule["apiGroups"], rule["resources"]) == (["ray.io"], ["rayjobs"])
        verbs[",".join(rule.get("resourceNames", ()))] = set(rule["verbs"])
    assert verbs == {"": {"create"}, "nanotok": {"get", "list", "watch", "delete"}}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["metadata"]["name"]}]
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    [mount] = pod["containers"][0]["volumeMounts"]
    assert f"{mount['mountPath']}/rayjob.yaml" in pod["containers"][0]["args"][0]
    [document] = documents("rayjob")
    assert f"rayjob {document['metadata']['name']} " in pod["containers"][0]["args"][0]


@pytest.fixture
def job(corpus, tmp_path):
    return recipe(corpus, tmp_path / "out")


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path / "out"))


def test_a_plan_is_not_frozen_while_a_run_is_active(job, folder, monkeypatch):
    held_elsewhere(folder, monkeypatch, command="prepare")
    announced = plan_job(job, rate=1.0)
    assert announced.values["frozen"]["status"] == "in use"
    assert "another run has locked this output" in announced.text()
    assert not folder.exists("plan.json")


def test_every_run_that_changes_something_acquires_and_releases_the_lease(job, folder, tmp_path):
    done = [train(job), tokenize(job)]
    folder.remove("shards.idx")
    done.append(prepare(job))
    folder.remove("tokenizer/tokenizer.json")
    done.append(prepare(job))
    assert folder.list("run/lease/") == [lease_name(len(done))]
    assert b'"released"' in folder.read_bytes(lease_name(len(done)))
    before = contents(tmp_path / "out", leave_out=())
    for command in (prepare, train, tokenize):
        assert command(job).values["status"] == "unchanged"
    assert contents(tmp_path / "out", leave_out=()) == before


def first_time(meanwhile):
    """Run an action once while a run starts Ray, before it holds a lease."""
    todo = [meanwhile]

    def start(**_):
        if todo:
            todo.pop()()

    return in_place_of_ray(InProcess(on_session=start))


def test_the_work_of_a_concurrent_run_is_seen_and_not_repeated(job, tmp_path):
    other = recipe(tmp_path / "in", tmp_path / "out", "tokenizer.vocab_size=320")
    with first_time(lambda: prepare(other)):
        prepare(job)
    quiet = recipe(tmp_path / "in", tmp_path / "quiet")
    with first_time(lambda: prepare(quiet)):
        assert prepare(quiet).values["status"] == "unchanged"
    assert contents(tmp_path / "quiet").items() <= contents(tmp_path / "out").items()


def test_a_plan_frozen_by_a_concurrent_run_is_kept(job, folder, tmp_path):
    def freeze():
        write_parquet(tmp_path / "in/text/shard_00003.parquet", texts(40, seed=3))
        plan_job(job, rate=1.0)

    with first_time(freeze):
        prepare(job)
    assert folder.list("web/val/")
    assert b"shard_00003" in folder.read_bytes("plan.json")
    assert prepare(job).values["status"] == "unchanged"


def run_in_between(folder):
    with leased(folder, command="other", on_event=ignore):
        pass


def test_repeated_findings_are_reported_once(job, folder, tmp_path):
    prepare(job)
    write_parquet(tmp_path / "in/text/shard_00003.parquet", texts(40, seed=3))
    with first_time(lambda: run_in_between(folder)):
        notes = run(job).notes
    assert any("1 added" in note for note in notes)
    assert len(notes) == len(set(notes))


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        *((StageEnded, "count"), (StageEnded, "learn"), (Advanced, "tokenize")),
        *((StageStarted, "verify"), (StageEnded, "verify")),
    ],
    ids=["counted", "learned", "tokenizing", "verifying", "verified"],
)
def test_a_run_whose_lease_was_taken_over_changes_nothing_more(job, folder, tmp_path, kind, stage):
    seen = {}

    def take_over(event):
        if isinstance(event, kind) and event.stage == stage and not seen:
            folder.write_bytes(lease_name(9), b"{}")
            seen.update(contents(tmp_path / "out"))

    with pytest.raises(LeaseLostError, match="another run has taken over"):
        prepare(job, on_event=take_over)
    after = contents(tmp_path / "out")
    changed = {name for name in after if after[name] != seen.get(name)}
    assert "manifest.json" not in after
    assert all(name.startswith(("web/", "chats/", "records/tokenize/")) for name in changed)
    assert folder.read_bytes(lease_name(9)) == b"{}"
