"""The doctor with a real head with token authentication: its job server, and the cluster."""

import json
import subprocess
import time

import pytest

from nanotok_ray.cluster import cluster_check
from nanotok_ray.cluster.cluster_check import (
    core_identity,
    cores_finding,
    nodes_finding,
    versions_finding,
)
from tests.support.machine_speed import scaled
from tests.support.ray_head import BIN

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture
def head(shared_head):
    return shared_head


def doctor(address, environment, *, until=""):
    """Run the doctor, repeatedly while the head starts; return exit code and checks by name."""
    deadline = time.monotonic() + scaled(90)
    while True:
        done = subprocess.run(
            [BIN / "nanotok", "doctor", "--address", address],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
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
    assert "RAY_AUTH_MODE=token" in checks["job server"]["advice"]
    assert "Invalid authentication token" in checks["job server"]["found"]
    assert "\n" not in checks["job server"]["found"]


def test_a_cluster_is_joined_and_its_nodes_report_their_core(head):
    address, environment = head.address, head.environment
    code, checks = doctor(address, environment, until="cores of nodes")
    assert (code, checks["cluster"]["found"]) == (0, "1 node, 2 CPUs")
    assert core_identity() in checks["cores of nodes"]["found"]
    assert "all 1 that run tasks" in checks["cores of nodes"]["found"]


def node(address, cpus=4):
    return {"NodeManagerAddress": address, "Resources": {"CPU": cpus} if cpus else {}}


def test_nodes_with_another_core_no_core_or_no_answer_fail():
    reported = [
        (node("10.0.0.1"), "core 1"),
        (node("10.0.0.2"), "core 2"),
        (node("10.0.0.3"), RuntimeError("traceback\n  ...\nModuleNotFoundError: nanotok_ray\n")),
    ]
    finding = cores_finding("core 1", reported, asked=5)
    assert finding.status == "fail"
    assert "10.0.0.2: core 2" in finding.found
    assert "10.0.0.3: ModuleNotFoundError" in finding.found
    assert "2 of the nodes did not answer" in finding.found
    assert "10.0.0.1" not in finding.found
    assert cores_finding("core 1", reported[:1], asked=1).status == "ok"


def test_a_cluster_without_cpus_is_a_warning():
    assert nodes_finding([node("10.0.0.1", 0)]).status == "warn"
    assert nodes_finding([node("10.0.0.1", 0), node("10.0.0.2")]).found == "2 nodes, 4 CPUs"


def test_two_versions_of_ray_are_a_warning(monkeypatch):
    monkeypatch.setattr(cluster_check, "ray_version", lambda: "2.60.0")
    assert versions_finding("Ray", "2.59.0").status == "warn"
    assert versions_finding("Ray", "2.60.0").status == "ok"
    assert versions_finding("Ray", None).status == "ok"
