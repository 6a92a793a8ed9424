"""The demo's recipe through `ray job submit` on a real head with token authentication."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer
from tests.support.machine_speed import scaled
from tests.support.ray_head import BIN, write_demo

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def head(shared_head):
    return shared_head


@pytest.fixture
def demo(tmp_path):
    return write_demo(tmp_path)


def submit(head, recipe, demo, *arguments):
    """Submit once the head answers; a head that is still starting refuses the connection."""
    command = [
        *(
            BIN / "ray",
            "job",
            "submit",
            "--address",
            head.dashboard,
            "--working-dir",
            recipe.parent,
        ),
        *("--runtime-env-json", json.dumps({"env_vars": {"NANOTOK_DEMO_DIR": str(demo)}})),
        *("--", "python", "-m", "jobs.prepare", recipe.name, *arguments),
    ]
    deadline = time.monotonic() + scaled(90)
    while True:
        done = subprocess.run(
            command, env=head.environment, capture_output=True, text=True, check=False
        )
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
