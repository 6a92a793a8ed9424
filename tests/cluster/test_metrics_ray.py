"""Metrics of a tiny job on a real head, fetched like by Prometheus."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from nanotok_ray.cluster.metrics import METRICS
from tests.support.machine_speed import scaled
from tests.support.ray_head import free_port, started_head
from tests.support.small_corpus import RECIPE, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]

DRIVER = """
import sys
import ray
from nanotok_ray.job.events import AttemptFailed, StageEnded, StageStarted
from nanotok_ray.api import prepare
from nanotok_ray.cluster.metrics import Metrics
from nanotok_ray.recipe import load_recipe
ray.init(address=sys.argv[1], log_to_driver=False)
prepare(load_recipe(sys.argv[2]))
last = Metrics()
last(StageStarted(stage="last", todo=7, num_done=0, num_bytes=0))
last(AttemptFailed(stage="last", name="a", slices=3, cause="it went away", text=""))
last(StageEnded(stage="last", seconds=4.0, num_bytes=0))
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def head():
    """Start a head node that updates metrics every 200 ms; return it and its port of metrics."""
    port = free_port()
    often = '{"metrics_report_interval_ms": 200}'
    flags = ("--include-dashboard", "false", "--metrics-export-port", str(port))
    with started_head(*flags, "--system-config", often) as started:
        yield started, port


def scraped(port):
    """Return the samples as Prometheus reads them: name, stage, and cause or boundary to value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=scaled(10)) as answer:
        text = answer.read().decode()
    found = {}
    for name, labels, value in re.findall(r"^(ray_nanotok_\w+)\{(.*)\} (\S+)$", text, re.MULTILINE):
        tags = dict(re.findall(r'(stage|cause|le)="([^"]*)"', labels))
        found[name, tags.get("stage"), tags.get("cause") or tags.get("le")] = float(value)
    return found, text


def test_prometheus_sees_the_metrics_of_a_job(head, tmp_path):
    started, port = head
    write_corpus(tmp_path / "in")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(root=tmp_path / "in", out=tmp_path / "out"))
    last = ("ray_nanotok_attempts_failed_total", "last", "it went away")
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, started.address, str(recipe)],
        cwd=ROOT,
        env=started.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "done\n"
        deadline = time.monotonic() + scaled(60)
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
