"""cluster.yaml: valid by Ray's own check, and safe as it stands."""

from pathlib import Path

import pytest
import yaml
from jsonschema import ValidationError
from ray.autoscaler._private.util import prepare_config, validate_config

PATH = Path(__file__).parent.parent / "cluster.yaml"

WITH_DEFAULTS = (
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "initialization_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "idle_timeout_minutes",
    "max_workers",
    "file_mounts",
)


@pytest.fixture
def cluster():
    return yaml.safe_load(PATH.read_text())


@pytest.fixture
def check():
    """Ray's own schema check, which fills in the defaults first."""
    return lambda config: validate_config(prepare_config(config))


def test_ray_accepts_the_file(cluster, check):
    check(cluster)


def test_ray_would_refuse_a_misspelt_key(cluster, check):
    with pytest.raises(ValidationError, match="max_wrokers"):
        check(cluster | {"max_wrokers": 3})


@pytest.mark.parametrize("key", WITH_DEFAULTS)
def test_no_key_is_left_to_a_default_of_ray(cluster, key):
    assert key in cluster


def test_nothing_nightly_is_installed_and_every_package_is_checked(cluster):
    commands = cluster["setup_commands"]
    assert "--require-hashes" in commands[0]
    assert "--no-deps" in commands[1]
    assert not any("http" in command or "dev0" in command for command in commands)


def test_every_machine_demands_the_token_and_has_it(cluster):
    assert "--env RAY_AUTH_MODE=token" in cluster["docker"]["run_options"]
    assert cluster["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"


def test_the_dashboard_listens_on_loopback_only(cluster):
    assert "--dashboard-host=127.0.0.1" in cluster["head_start_ray_commands"][-1].split()


def test_the_head_is_on_demand_and_runs_no_tasks(cluster):
    head = cluster["available_node_types"][cluster["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert "--num-cpus=0" in cluster["head_start_ray_commands"][-1].split()
    assert "InstanceMarketOptions" not in head["node_config"]


def test_workers_are_spot_and_are_never_kept_stopped(cluster):
    workers = {**cluster["available_node_types"]}
    del workers[cluster["head_node_type"]]
    markets = [worker["node_config"]["InstanceMarketOptions"] for worker in workers.values()]
    assert markets == [{"MarketType": "spot"}]
    assert cluster["provider"]["cache_stopped_nodes"] is False


def test_every_start_command_raises_the_limit_of_open_files(cluster):
    starts = cluster["head_start_ray_commands"][-1], cluster["worker_start_ray_commands"][-1]
    assert all(start.startswith("ulimit -n 65536;") for start in starts)


def test_the_container_has_the_locked_ray(cluster):
    lock = (PATH.parent / "requirements" / "runtime.txt").read_text()
    version = cluster["docker"]["image"].split(":")[1].split("-")[0]
    assert f"\nray[default]=={version} " in lock or f"\nray=={version} " in lock
