"""A local Ray: token authentication with a random token, and no files in the home folder."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

CODE = """
import json, os
from nanotok_ray.job.engine import Task
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
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**kept, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
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
        done = subprocess.run(
            [sys.executable, "-c", SESSIONS],
            env={**os.environ, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert Path(folder, "ray/session_2020-01-01_of_somebody_else").is_dir()
