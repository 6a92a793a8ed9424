"""Sessions of Ray: starting, joining, their end, and the checks of the doctor."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import tokenizers

from nanotok_ray.cli import main
from nanotok_ray.cluster import session
from nanotok_ray.cluster.cluster_check import core_identity
from nanotok_ray.cluster.drain_on_notice import Raylet, local_raylets
from nanotok_ray.cluster.session import ray_session
from tests.support.library_tokenizers import word_piece
from tests.support.machine_speed import scaled
from tests.support.ray_head import NANOTOK
from tests.support.small_corpus import RECIPE, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]


def finished(command, environment):
    """Run a command until its end."""
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


CODE = """
import json, os
from nanotok_ray.job.task import Task
from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.ray_executor import cluster_resources
from nanotok_ray.cluster.session import ray_session

def look(names):
    return {name: os.environ.get(name) for name in names}

names = ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_task_oom_retries"]
with ray_session(cpus=1):
    task = Task(name="look", work=look, argument=names, num_bytes=0)
    [ended] = RayExecutor().run([task])
    assert ended.error is None, ended.error
    print(json.dumps([look(names), ended.result, cluster_resources().cpus]))
import ray
assert not ray.is_initialized()
"""


def test_auth_mode_and_token_are_set_and_reach_the_workers(tmp_path):
    kept = {name: own for name, own in os.environ.items() if not name.startswith("RAY_")}
    done = finished([sys.executable, "-c", CODE], {**kept, "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    driver, worker, cpus = json.loads(done.stdout.splitlines()[-1])
    assert driver == worker
    assert driver["RAY_AUTH_MODE"] == "token"
    assert len(driver["RAY_AUTH_TOKEN"]) >= 32
    assert driver["RAY_task_oom_retries"] == "3"
    assert cpus == 1
    assert not (tmp_path / ".ray").exists()


SESSIONS = """
import os, sys
from pathlib import Path
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.errors import SliceError

def sessions():
    return sorted(path.name for path in Path(os.environ["RAY_TMPDIR"], "ray").iterdir())

for error in (None, KeyboardInterrupt(), SliceError("its worker died")):
    before = sessions()
    try:
        with ray_session(cpus=1):
            assert len(sessions()) == len(before) + 2  # one, and the link to it
            if error is not None:
                raise error
    except type(error):
        pass
    is_kept = isinstance(error, SliceError)
    assert len(sessions()) == len(before) + 2 * is_kept, (error, sessions())
"""


def test_the_folder_of_a_session_is_removed_unless_its_logs_are_needed():
    with tempfile.TemporaryDirectory(prefix="nanotok-", dir="/tmp") as folder:  # short, for sockets
        Path(folder, "ray/session_2020-01-01_of_somebody_else").mkdir(parents=True)
        done = finished([sys.executable, "-c", SESSIONS], {**os.environ, "RAY_TMPDIR": folder})
        assert done.returncode == 0, done.stderr
        assert Path(folder, "ray/session_2020-01-01_of_somebody_else").is_dir()


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    root = tmp_path_factory.mktemp("job")
    write_corpus(root / "in")
    path = root / "recipe.toml"
    path.write_text(RECIPE.format(root=root / "in", out=root / "out"))
    return str(path)


LISTENING = """
import os, sys
from pathlib import Path
from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.job.task import Task

def sockets_of(pid):
    for file in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            yield os.readlink(file)
        except OSError:
            continue

def family():
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found

def listening():
    ours = {socket for pid in family() for socket in sockets_of(pid)}
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in ours:
                yield fields[1].rpartition(":")[0]

with ray_session(cpus=1):
    [ended] = RayExecutor().run([Task(name="one", work=len, argument="a", num_bytes=0)])
    assert ended.result == 1
    print(*sorted(set(listening())))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 as Linux lists it, also as an address of IPv6."""


def test_a_local_ray_listens_on_loopback_only():
    done = finished([sys.executable, "-c", LISTENING], {**os.environ})
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert found
    assert found <= LOOPBACK


KILLING = """
import os, signal, sys, time
from pathlib import Path
from nanotok_ray import prepare
from nanotok_ray.cli import main
from nanotok_ray.job.work import count_work
from tests.support.executors import on_ray_with

def commands_of_children(pid):
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                yield int(process.name), (process / "cmdline").read_text()
        except OSError:
            continue

def kill(work):
    raylet = os.getppid()
    agents = [pid for pid, text in commands_of_children(raylet) if "agent" in text.lower()]
    os.kill(agents[0] if VICTIM == "agent" else raylet, signal.SIGKILL)
    while True:
        time.sleep(0.1)

def job(recipe, *, executor, address, **options):
    return prepare(recipe, executor=on_ray_with({count_work: kill}), **options)

sys.exit(main(["prepare", *sys.argv[1:], "--cpus", "1"], job=job))
"""


@pytest.mark.parametrize("victim", ["raylet", "agent"])
def test_a_local_ray_that_dies_ends_the_run_with_one_line(recipe, victim, tmp_path):
    kept = {name: own for name, own in os.environ.items() if name != "RAY_ADDRESS"}
    code = KILLING.replace("VICTIM", repr(victim))
    out = f"output.path={tmp_path / 'out'}"
    work = f"output.work={tmp_path / 'work'}"
    done = finished([sys.executable, "-c", code, recipe, "--set", out, "--set", work], kept)
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
    [line] = [line for line in done.stderr.splitlines() if line.startswith("nanotok: ")]
    assert line.startswith("nanotok: error: the local Ray of this run has ended (raylet of process")
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "failed"


def error_in(stderr):
    assert "Traceback" not in stderr
    [line] = [line for line in stderr.splitlines() if line.startswith("nanotok: ")]
    assert line.startswith(
        "nanotok: error: cannot join the Ray cluster of the environment variable"
    )
    assert "RAY_ADDRESS" in line
    return line


def test_a_listener_that_is_no_head_fails_soon(recipe, monkeypatch, capsys):
    monkeypatch.setattr(session, "CALL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # which never answers
        silent = f"127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", silent)
        assert main(["prepare", recipe]) == 5
    line = error_in(capsys.readouterr().err)
    assert f"{silent} does not answer as the head of a Ray cluster" in line
    assert "6379" in line


@pytest.fixture
def head(shared_head):
    return shared_head


def prepared(head, recipe, **variables):
    """Run `nanotok prepare` in a separate process; return exit code, stderr and seconds."""
    environment = {**head.environment, "RAY_ADDRESS": head.address} | variables
    environment = {name: own for name, own in environment.items() if own is not None}
    start = time.monotonic()
    done = finished([*NANOTOK, "prepare", recipe], environment)
    return done.returncode, done.stderr, time.monotonic() - start


def test_a_head_is_joined_only_with_its_token(head, recipe, tmp_path):
    no_token = {"RAY_AUTH_TOKEN": None, "HOME": str(tmp_path)}
    wrong = {"RAY_AUTH_TOKEN": "f" * 64}
    while "does not accept" not in prepared(head, recipe, **wrong)[1]:
        time.sleep(0.1)  # the server is still starting
    for variables, reported in (
        (wrong, "does not accept the token (from RAY_AUTH_TOKEN); export RAY_AUTH_MODE=token"),
        (no_token, "couldn't find an authentication token; export RAY_AUTH_MODE=token"),
        ({**no_token, "RAY_AUTH_MODE": "disabled"}, "does not accept the token (none in"),
        ({**no_token, "RAY_AUTH_MODE": None}, "does not accept the token (none in"),
    ):
        code, stderr, seconds = prepared(head, recipe, **variables)
        assert code == 5
        assert reported in error_in(stderr)
        assert seconds < scaled(30)
    code, stderr, _ = prepared(head, recipe)
    assert code == 0, stderr


def test_a_running_node_is_found_without_asking_ray():
    with ray_session(cpus=1):
        import ray  # noqa: PLC0415 - the session sets its environment before

        context = ray.get_runtime_context()
        wanted = Raylet(node_id=context.get_node_id(), address=context.gcs_address)
        assert wanted in local_raylets()
    assert wanted not in local_raylets()


def doctor(address, environment, *others, until=""):
    """Run the doctor, repeatedly while the head starts; return exit code and checks by name."""
    deadline = time.monotonic() + scaled(90)
    while True:
        done = finished([*NANOTOK, "doctor", "--address", address, *others], environment)
        checks = {each["name"]: each for each in json.loads(done.stdout.splitlines()[-1])["checks"]}
        if until in checks or time.monotonic() > deadline:
            assert environment["RAY_AUTH_TOKEN"] not in done.stdout + done.stderr
            return done.returncode, checks


def test_a_job_server_is_checked_with_a_right_and_a_wrong_token(head):
    address, environment = head.dashboard, head.environment
    code, checks = doctor(address, environment, until="job server's Ray")
    assert (code, checks["job server"]["status"]) == (0, "ok")
    assert checks["job server's Ray"]["found"].endswith("as here")
    code, checks = doctor(address, environment | {"RAY_AUTH_TOKEN": "f" * 64}, until="job server")
    assert (code, checks["job server"]["status"]) == (5, "fail")
    assert "export RAY_AUTH_MODE=token" in checks["job server"]["found"]
    assert "Invalid authentication token" in checks["job server"]["found"]
    assert "\n" not in checks["job server"]["found"]


def test_a_cluster_is_joined_and_its_nodes_report_their_core_and_library(head, recipe, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(word_piece())
    others = (recipe, "--set", f"tokenizer.path={path}")
    code, checks = doctor(head.address, head.environment, *others, until="cores of nodes")
    assert (code, checks["cluster"]["found"]) == (0, "1 node, 2 CPUs")
    assert core_identity() in checks["cores of nodes"]["found"]
    assert "all 1 that run tasks" in checks["cores of nodes"]["found"]
    version = f"tokenizers {tokenizers.__version__}"
    assert checks["tokenizers of nodes"]["found"] == f"{version}, on all 1 that run tasks"
