"""The demo's recipe through `ray job submit` on a real head with token authentication."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import closing
from pathlib import Path

import pytest

from jobs import demo_corpus
from nanotok_ray.reader import open_shards
from nanotok_ray.tokenizer import Tokenizer

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
MODULES = (
    *("bisect.py", "calendar.py", "decimal.py", "difflib.py", "doctest.py", "enum.py"),
    *("fractions.py", "heapq.py", "locale.py", "pickle.py", "random.py", "statistics.py"),
    *("textwrap.py", "typing.py"),
)


def free_port():
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def head():
    """Start a head node of its own; give its job address and the environment of a client."""
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    environment.pop("RAY_ADDRESS", None)
    dashboard = free_port()
    process = subprocess.Popen(
        [
            *(BIN / "ray", "start", "--head", "--block", "--num-cpus", "2"),
            *("--port", str(free_port()), "--ray-client-server-port", str(free_port())),
            *("--dashboard-host", "127.0.0.1", "--dashboard-port", str(dashboard)),
            *("--dashboard-agent-listen-port", str(free_port())),
            *("--temp-dir", f"/tmp/nanotok-{secrets.token_hex(4)}"),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield f"http://127.0.0.1:{dashboard}", environment
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def demo(tmp_path):
    """Make the demo's corpus of a few modules of the standard library that have doctests."""
    library = tmp_path / "library"
    library.mkdir()
    for name in MODULES:
        shutil.copy(Path(sysconfig.get_path("stdlib"), name), library)
    demo_corpus.main([str(tmp_path / "demo/corpus"), "--library", str(library)])
    return tmp_path / "demo"


def submit(head, recipe, demo, *arguments):
    """Submit once the head answers; a head that is still starting refuses the connection."""
    address, environment = head
    command = [
        *(BIN / "ray", "job", "submit", "--address", address, "--working-dir", recipe.parent),
        *("--runtime-env-json", json.dumps({"env_vars": {"NANOTOK_DEMO_DIR": str(demo)}})),
        *("--", "python", "-m", "jobs.prepare", recipe.name, *arguments),
    ]
    deadline = time.monotonic() + 90
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        refused = "Failed to connect" in done.stderr or "Connection refused" in done.stderr
        if not refused or time.monotonic() > deadline:
            return done


def test_the_demo_recipe_runs_as_a_submitted_job_and_its_exit_code_tells(head, demo):
    recipe = ROOT / "jobs/recipes/demo.toml"
    done = submit(head, recipe, demo)
    assert done.returncode == 0, done.stdout + done.stderr
    shards = open_shards(str(demo / "out"), source="doctests")
    tokenizer = Tokenizer.load(demo / "out/tokenizer")
    assert tokenizer.decode(shards[0]).startswith("<|bos|><|user_start|>")
    again = submit(head, recipe, demo)
    assert again.returncode == 0
    assert '"status": "unchanged"' in again.stdout
    failed = submit(head, recipe, demo, "--set", "source.code.paths=/nowhere/at/all")
    assert failed.returncode == 1
    assert "/nowhere/at/all" in failed.stdout
