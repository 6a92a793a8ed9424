"""Three nodes: folders that a node does not see are refused; lost nodes cost no slice."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from math import ceil
from pathlib import Path

import fsspec.config
import pytest
import ray
from ray.cluster_utils import Cluster

from nanotok_ray.cluster import RayExecutor, ray_session
from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job import RetryPolicy, Task
from nanotok_ray.job.probes import shared_folders
from nanotok_ray.storage import Folder
from tests.support.machine_speed import scaled

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

QUICK = RetryPolicy(first_wait=0.01, longest_wait=0.02)

HEALTH = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": ceil(scaled(5)),
}
"""so that a dead node is detected in seconds"""


def mounted(folder):
    """Return the folder of `dir://` on a node: another one on each, like local disks."""
    return {"path": str(folder), "target_protocol": "file", "target_options": {"auto_mkdir": True}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Run three nodes on this machine; `dir://` is a separate disk on the second one."""
    disks = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    nodes = Cluster()
    try:
        for number, disk in enumerate([*disks, disks[0]]):
            variables = {"FSSPEC_DIR": json.dumps(mounted(disk)), "NODE": str(number)}
            settings = {} if number else {"include_dashboard": False, "_system_config": HEALTH}
            nodes.add_node(num_cpus=1, env_vars=variables, **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", nodes.address)
            patch.setitem(fsspec.config.conf, "dir", mounted(disks[0]))
            with ray_session():
                yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_folders_visible_on_all_nodes_pass_and_stay_clean(cluster, tmp_path):
    with ray_session(shared=shared_folders(str(tmp_path / "out"), str(tmp_path / "work"))):
        pass
    assert Folder(str(tmp_path)).list() == []


def test_a_folder_invisible_to_the_second_node_is_refused_with_its_address(cluster, tmp_path):
    shared = shared_folders("dir://out", str(tmp_path))
    with pytest.raises(SharedFolderError) as caught, ray_session(shared=shared):
        raise AssertionError("work began")
    first, second = str(caught.value).splitlines()
    assert first.startswith("dir://out is not one folder for all nodes: 1 of 3 nodes do not")
    assert "the credentials and the network of every node" in first
    assert ray.nodes()[0]["NodeManagerHostname"] in second
    assert "FileNotFoundError" in second
    assert Folder("dir://out").list() == Folder(str(tmp_path)).list() == []


def cut_the_power(argument):
    """Kill a node from within: its raylet, then its worker."""
    if is_struck(*argument):
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return os.environ["NODE"]


def freeze(argument):
    """Stop a node's raylet and worker, which keep their connections, as in a network failure.

    The function first waits until the cluster knows that the node's CPU is used: messages to a
    silent node wait there for minutes, and on a busy machine the cluster's view is late.
    """
    if is_struck(*argument, when=lambda: ray.available_resources().get("CPU", 0) == 0):
        os.kill(os.getppid(), signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
    return os.environ["NODE"]


def is_struck(node, marker, *, when=lambda: True):
    """Return whether this is the node; on other nodes, wait until it is struck."""
    if os.environ["NODE"] == node:
        while not when():
            time.sleep(0.02)
        Path(f"{marker}.new").write_text(f"{os.getpid()} {os.getppid()}")
        Path(f"{marker}.new").rename(marker)
        return True
    while not Path(marker).exists():
        time.sleep(0.02)
    return False


def drain_and_go(marker):
    """On the node that will be reclaimed: drain it, as on a notice, then let it disappear."""
    if os.environ["NODE"] == "spot":
        Path(marker).touch()
        command = [Path(sys.executable).with_name("ray"), "drain-node", "--node-id"]
        command += [ray.get_runtime_context().get_node_id()]
        command += ["--address", os.environ["OF_CLUSTER"], "--deadline-remaining-seconds", "1"]
        command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "spot"]
        subprocess.run(command, check=True, capture_output=True)
        Path(f"{marker}.drained").touch()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    while not Path(f"{marker}.drained").exists():
        time.sleep(0.02)
    return os.environ["NODE"]


def tasks_of(work, argument):
    return [
        Task(name=str(number), work=work, argument=argument, num_bytes=1 << 30)
        for number in range(6)
    ]


def test_a_drained_and_reclaimed_node_uses_no_attempt_of_its_slices(cluster, tmp_path):
    notes, marker = [], str(tmp_path / "begun")
    cluster.add_node(num_cpus=1, env_vars={"NODE": "spot", "OF_CLUSTER": cluster.address})
    retry_policy = replace(QUICK, worker_deaths=1, lost_nodes=2)
    tasks = tasks_of(drain_and_go, marker)
    ended = list(RayExecutor().run(tasks, retry_policy=retry_policy, on_note=notes.append))
    assert [each.error for each in ended] == [None] * 6
    assert sorted(each.attempts for each in ended) == [1, 1, 1, 1, 1, 2]
    assert {each.result for each in ended} <= {"0", "1", "2"}
    assert len(notes) == 1
    assert "its node went away" in notes[0]


def test_a_dead_node_fails_no_slice(cluster, tmp_path):
    notes = []
    tasks = tasks_of(cut_the_power, ("1", str(tmp_path / "struck")))
    ended = list(RayExecutor().run(tasks, retry_policy=QUICK, on_note=notes.append))
    assert [each.error for each in ended] == [None] * 6
    assert sorted(each.attempts for each in ended) == [1, 1, 1, 1, 1, 2]
    assert len(notes) == 1
    assert "its node went away" in notes[0]


def test_a_silent_node_is_overtaken_before_ray_gives_up_its_call(cluster, tmp_path):
    pids = tmp_path / "pids"
    notes = []
    retry_policy = RetryPolicy(overdue_floor=scaled(1.0))
    try:
        tasks = tasks_of(freeze, ("2", str(pids)))
        ended = list(RayExecutor().run(tasks, retry_policy=retry_policy, on_note=notes.append))
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    assert [(each.error, each.result) for each in ended] == [(None, "0")] * 6
    assert max(each.attempts for each in ended) == 2
    assert any("gets a speculative attempt" in note for note in notes)
