"""Metrics of a tiny job on a real head, as Prometheus would fetch them."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest

from nanotok_ray.cluster.metrics import METRICS
from tests.small_corpus import write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

DRIVER = """
import sys
import ray
from nanotok_ray.cluster.events import AttemptFailed, StageEnded, StageStarted
from nanotok_ray.cluster.job import prepare
from nanotok_ray.cluster.metrics import Metrics
from nanotok_ray.recipe import load_recipe
ray.init(address=sys.argv[1], log_to_driver=False)
prepare(load_recipe(sys.argv[2]))
last = Metrics()
last(StageStarted(stage="last", todo=7, kept=0, num_bytes=0))
last(AttemptFailed(stage="last", name="a", slices=3, cause="it went away", text=""))
last(StageEnded(stage="last", seconds=4.0, num_bytes=0))
print("done", flush=True)
sys.stdin.read()
"""
RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{folder}/in/text/*.parquet"]
[tokenizer]
vocab_size = 350
[output]
path = "{folder}/out"
"""


def free_port():
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def head():
    """Start a head node whose metrics come every 200 ms; give its address and metrics port."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    environment.pop("RAY_ADDRESS", None)
    port, metrics = free_port(), free_port()
    process = subprocess.Popen(
        [
            *(BIN / "ray", "start", "--head", "--block", "--num-cpus", "2"),
            *("--port", str(port), "--ray-client-server-port", str(free_port())),
            *("--include-dashboard", "false", "--dashboard-agent-listen-port", str(free_port())),
            *("--metrics-export-port", str(metrics)),
            *("--system-config", '{"metrics_report_interval_ms": 200}'),
            *("--temp-dir", f"/tmp/nanotok-{secrets.token_hex(4)}"),
        ],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield f"127.0.0.1:{port}", metrics, environment
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def scraped(port):
    """Give the samples as Prometheus reads them: name, stage, and cause or boundary to value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for name, labels, value in re.findall(r"^(ray_nanotok_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        tags = dict(re.findall(r'(stage|cause|le)="([^"]*)"', labels))
        found[name, tags.get("stage"), tags.get("cause") or tags.get("le")] = float(value)
    return found, text


def test_a_job_is_seen_by_prometheus(head, tmp_path):
    address, port, environment = head
    write_corpus(tmp_path / "in")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=tmp_path))
    last = ("ray_nanotok_attempts_failed_total", "last", "it went away")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, address, str(recipe)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "done\n"
        deadline = time.monotonic() + 60
        found, text = scraped(port)
        while last not in found and time.monotonic() < deadline:
            time.sleep(0.1)
            found, text = scraped(port)
        process.stdin.close()
    assert found[last] == 3
    for metric in METRICS:
        assert f"# HELP ray_{metric.name}" in text
        assert metric.text in text
    summary = json.loads((tmp_path / "out/run/summary.json").read_text())
    for stage, name in (("count", "slices_done"), ("tokenize", "slices_done")):
        done = found[f"ray_nanotok_{name}", stage, None]
        assert done == found["ray_nanotok_slices_todo", stage, None] > 0
        assert found["ray_nanotok_slices_failed", stage, None] == 0
        assert found["ray_nanotok_slice_seconds_bucket", stage, "+Inf"] == done
        assert found["ray_nanotok_slice_seconds_count", stage, None] == done
        own = summary["stages"][stage]
        assert found["ray_nanotok_bytes_total", stage, None] == own["bytes"]
        assert found["ray_nanotok_stage_seconds", stage, None] == pytest.approx(
            own["seconds"], abs=0.01
        )
