"""cluster.yaml and its variant for GCP: valid by Ray's own check, and safe by default."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from tests.support.machine_speed import scaled

ROOT = Path(__file__).parents[2]
AWS = ROOT / "cluster.yaml"
GCP = ROOT / "deploy" / "cluster-gcp.yaml"

CLOUD_KEYS = {"provider", "available_node_types", "worker_start_ray_commands"}


@pytest.fixture(params=[AWS, GCP], ids=["aws", "gcp"])
def cluster(request):
    return yaml.safe_load(request.param.read_text())


@pytest.fixture
def workers(cluster):
    types = {**cluster["available_node_types"]}
    del types[cluster["head_node_type"]]
    return types


def test_ray_accepts_the_file(cluster):
    validate_config(prepare_config(cluster))


def test_nothing_is_installed_when_a_machine_starts(cluster, workers):
    keys = ("initialization_commands", "setup_commands", "head_setup_commands")
    assert all(cluster[key] == [] for key in (*keys, "worker_setup_commands"))
    own = [worker.keys() & {"worker_setup_commands", "docker"} for worker in workers.values()]
    assert not any(own)


def test_the_head_is_on_demand_and_runs_no_tasks_and_its_dashboard_listens_on_loopback(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    started = cluster["head_start_ray_commands"][-1].split()
    assert {"--num-cpus=0", "--dashboard-host=127.0.0.1"} <= {*started}
    assert not head["node_config"].keys() & {"InstanceMarketOptions", "scheduling"}


def test_workers_are_spot_with_their_own_permissions_and_are_never_kept_stopped(cluster, workers):
    configs = [worker["node_config"] for worker in workers.values()]
    assert len(configs) == len({str(config) for config in configs}) == 2
    spot = {
        "aws": ("InstanceMarketOptions", "MarketType", "spot"),
        "gcp": ("scheduling", "provisioningModel", "SPOT"),
    }
    key, name, value = spot[cluster["provider"]["type"]]
    assert all(config[key][name] == value for config in configs)
    permissions = {"aws": "IamInstanceProfile", "gcp": "serviceAccounts"}
    assert all(permissions[cluster["provider"]["type"]] in config for config in configs)
    assert cluster["provider"]["cache_stopped_nodes"] is False


def test_every_node_may_open_many_files_and_has_no_key_but_the_token(cluster):
    assert cluster["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert not any("KEY" in option for option in cluster["docker"]["run_options"])
    assert "--ulimit nofile=65536:65536" in cluster["docker"]["run_options"]
    starts = cluster["head_start_ray_commands"][1], cluster["worker_start_ray_commands"][1]
    assert all(start.startswith("ulimit -n 65536;") for start in starts)


def test_the_clouds_differ_only_where_they_must():
    aws, gcp = (yaml.safe_load(path.read_text()) for path in (AWS, GCP))
    assert {key for key in aws | gcp if aws.get(key) != gcp.get(key)} == CLOUD_KEYS
    assert aws["worker_start_ray_commands"][:2] == gcp["worker_start_ray_commands"][:2]


def test_each_spot_machine_starts_the_watcher_in_the_background(cluster, tmp_path):
    """Run the command in a shell, like Ray, with a Python that prints its arguments."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    reported = tmp_path / "reported"
    os.mkfifo(reported)
    python.write_text(f'#!/bin/sh\necho "$@" > {reported}\n')  # waits until the test reads it
    python.chmod(0o755)
    command = cluster["worker_start_ray_commands"][-1]
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(
        ["bash", "-c", f"true && ({command})"], env=environment, check=True, timeout=scaled(30)
    )
    cloud = cluster["provider"]["type"]
    assert reported.read_text() == f"-m nanotok_ray.cluster.drain_on_notice {cloud}\n"
    assert (tmp_path / ".nanotok" / "drain_on_notice.log").read_text() == ""
    assert not any("drain" in command for command in cluster["head_start_ray_commands"])
