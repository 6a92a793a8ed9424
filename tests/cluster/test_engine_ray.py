"""The runner on Ray: attempts, deaths of workers and nodes, memory."""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path

import fsspec.config
import pytest
import ray
from ray._common.utils import get_system_memory
from ray._private.utils import get_used_memory
from ray.cluster_utils import Cluster

from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.errors import SharedFolderError
from nanotok_ray.job.events import Note
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import shared_folders
from nanotok_ray.job.runner import TaskListener
from nanotok_ray.job.stage import TaskRules, run_stage
from nanotok_ray.job.task import RetryPolicy, SharedFolder, Task
from nanotok_ray.storage import Folder
from tests.support.machine_speed import scaled

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

QUICK = RetryPolicy(first_wait=0.01, max_wait=0.02)


def tasks_of(work, arguments, *, num_bytes=0):
    return [
        Task(
            name=f"slice {number}",
            work=work,
            argument=argument,
            num_bytes=num_bytes,
            inputs=(f"/in/{number}.gz",),
        )
        for number, argument in enumerate(arguments)
    ]


def die(argument):
    if argument == "fatal":
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


@pytest.mark.usefixtures("ray_with_deaths")
def test_a_slice_that_always_kills_its_worker_fails_alone(monkeypatch):
    # A busy machine makes attempts slow; no other attempt starts beside a slow one.
    patient = partial(RetryPolicy, overdue_floor=1e9)
    monkeypatch.setattr("nanotok_ray.job.stage.RetryPolicy", patient)
    reported = []
    tasks = tasks_of(die, ["a", "fatal", "c", "d"])
    rules = TaskRules(max_skipped=1)
    runtime = Runtime(RayExecutor(), on_event=reported.append)
    [failed] = run_stage("count", tasks, runtime, num_done=0, rules=rules)
    assert (failed.task.inputs_text, failed.attempts) == ("/in/1.gz", 3)
    assert "its worker process died 3 times" in failed.error
    assert reported[-1].num_bytes == 3
    assert len([event for event in reported if isinstance(event, Note)]) == 3


def hang_for_good_once(marker):
    """Hang like native code, which no interrupt ends, in the first call with a marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return 1
    Path(f"{marker}.pid").write_text(str(os.getpid()))
    while True:
        with suppress(KeyboardInterrupt):
            time.sleep(0.05)


@pytest.mark.usefixtures("ray_with_deaths")
def test_an_overtaken_call_that_hangs_releases_its_cpu(tmp_path):
    marker = str(tmp_path / "hung")
    tasks = tasks_of(hang_for_good_once, [marker])
    tasks += tasks_of(die, ["a", "b"])
    retry_policy = RetryPolicy(overdue_floor=scaled(0.3))
    ended = list(RayExecutor().run(tasks, retry_policy=retry_policy))
    assert [each.error for each in ended] == [None] * 3
    pid = Path(f"{marker}.pid").read_text()
    while Path(f"/proc/{pid}").exists():  # otherwise the time limit ends the test
        time.sleep(0.01)


@pytest.mark.usefixtures("shared_ray")
def test_an_argument_that_cannot_be_unpickled_fails_its_own_slice():
    ended = list(RayExecutor().run(tasks_of(die, ["a", Unreadable(), "c"]), retry_policy=QUICK))
    assert {each.task.name: bool(each.error) for each in ended} == {
        "slice 0": False,
        "slice 1": True,
        "slice 2": False,
    }
    assert "nobody can read this" in next(each.error for each in ended if each.error)


class Unreadable:
    def __reduce__(self):
        return (refuse, ())


def refuse():
    raise ValueError("nobody can read this")


@pytest.mark.usefixtures("shared_ray")
def test_a_worker_without_access_to_the_folder_ends_the_stage():
    shared = (SharedFolder(url="memory://of-each-process", probes="probe"),)
    tasks = [Task(name="slice", work=die, argument="", num_bytes=0, shared=shared)]
    with pytest.raises(SharedFolderError, match="memory://of-each-process is not one folder"):
        list(RayExecutor().run(tasks, retry_policy=QUICK))


# Before the tests of several nodes, whose cluster runs until the end of this module.
MARGIN_BYTES, BLOCK_BYTES, MAX_BLOCKS = 5 << 29, 256 << 20, 32
TAKEN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


@pytest.fixture
def ray_with_little_memory(monkeypatch):
    """Start a Ray that kills workers when 2.5 GiB more than now are in use."""
    threshold = (get_used_memory() + MARGIN_BYTES) / get_system_memory()
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{threshold:.4f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "50")
    with ray_session(cpus=2):
        yield


def take_memory(argument):
    """Allocate memory until this worker is killed, at most eight gibibytes."""
    blocks = []
    while argument == "hungry" and len(blocks) < MAX_BLOCKS:
        blocks.append(mmap.mmap(-1, BLOCK_BYTES, flags=TAKEN))
    return 1


@pytest.mark.usefixtures("ray_with_little_memory")
def test_a_slice_too_large_for_every_node_is_named_and_the_others_finish():
    notes, tasks = [], tasks_of(take_memory, ["a", "hungry", "c"])
    # With the waits of a job: the memory of a killed worker is released with a delay.
    retry_policy = RetryPolicy(memory_failures=2, overdue_floor=1e9)
    stage = RayExecutor().run(
        tasks, retry_policy=retry_policy, listener=TaskListener(on_note=notes.append)
    )
    ended = {each.task.argument: each for each in stage}
    assert {name: each.result for name, each in ended.items()} == {"a": 1, "hungry": None, "c": 1}
    assert ended["hungry"].attempts >= 2  # more if others on this machine take memory meanwhile
    error = ended["hungry"].error
    assert error.startswith("its node ran out of memory 2 times, though more was kept free")
    assert "limits.slice_bytes" in error
    assert notes[0].startswith("slice 1: its node ran out of memory")


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


def six_slices(work, argument):
    return tasks_of(work, [argument] * 6, num_bytes=1 << 30)


def check_one_slice_is_repeated(tasks, retry_policy):
    """Run six slices of which a node takes one along; return the results."""
    notes = []
    ended = list(
        RayExecutor().run(
            tasks, retry_policy=retry_policy, listener=TaskListener(on_note=notes.append)
        )
    )
    assert [each.error for each in ended] == [None] * 6
    assert sorted(each.attempts for each in ended) == [1, 1, 1, 1, 1, 2]
    assert len(notes) == 1
    assert "its node went away" in notes[0]
    return {each.result for each in ended}


def test_a_drained_and_reclaimed_node_uses_no_attempt_of_its_slices(cluster, tmp_path):
    cluster.add_node(num_cpus=1, env_vars={"NODE": "spot", "OF_CLUSTER": cluster.address})
    tasks = six_slices(drain_and_go, str(tmp_path / "begun"))
    retry_policy = replace(QUICK, worker_deaths=1, lost_nodes=2)
    assert check_one_slice_is_repeated(tasks, retry_policy) <= {"0", "1", "2"}


def test_a_dead_node_fails_no_slice(cluster, tmp_path):
    tasks = six_slices(cut_the_power, ("1", str(tmp_path / "struck")))
    check_one_slice_is_repeated(tasks, QUICK)


def test_a_silent_node_is_overtaken_before_ray_gives_up_its_call(cluster, tmp_path):
    pids = tmp_path / "pids"
    notes = []
    retry_policy = RetryPolicy(overdue_floor=scaled(1.0))
    try:
        tasks = six_slices(freeze, ("2", str(pids)))
        ended = list(
            RayExecutor().run(
                tasks, retry_policy=retry_policy, listener=TaskListener(on_note=notes.append)
            )
        )
    finally:
        for pid in pids.read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    assert [(each.error, each.result) for each in ended] == [(None, "0")] * 6
    assert max(each.attempts for each in ended) == 2
    assert any("gets another attempt" in note for note in notes)
