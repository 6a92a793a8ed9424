"""Nodes that cannot run a job, or not all of it, beside a node that can."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import groupby
from pathlib import Path

import fsspec.config
import pytest
import ray
from ray.cluster_utils import Cluster

from nanotok_ray.cluster.ray_executor import RayExecutor
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.errors import NodeError, SharedFolderError
from nanotok_ray.job.events import ClusterSize
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.job_plan import decide
from nanotok_ray.job.probes import shared_folders, shared_sources
from nanotok_ray.job.runner import TaskListener
from nanotok_ray.job.stage import run_stage
from nanotok_ray.job.task import RetryPolicy, SharedFolder, SharedLibrary, Task
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.storage import Folder
from tests.support.small_corpus import write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

QUICK = RetryPolicy(first_wait=0.01, max_wait=0.02)

WITHOUT_PACKAGE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "nanotok_ray":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
WITH_OTHER_VERSION = """
import nanotok_ray

nanotok_ray.__version__ = "0.0.9"
"""


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Return the folders that `dir://` is on the good nodes and on bad ones."""
    return tmp_path_factory.mktemp("good"), tmp_path_factory.mktemp("bad")


def mounted(folder):
    return {"path": str(folder), "target_protocol": "file", "target_options": {"auto_mkdir": True}}


@pytest.fixture(scope="module")
def cluster(disks):
    """Run a head without CPUs and one good node."""
    nodes = Cluster()
    variables = {"FSSPEC_DIR": json.dumps(mounted(disks[0])), "NODE": "good"}
    try:
        nodes.add_node(num_cpus=0, include_dashboard=False)
        nodes.add_node(num_cpus=1, env_vars=variables)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", nodes.address)
            patch.setitem(fsspec.config.conf, "dir", mounted(disks[0]))
            with ray_session():
                yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


@contextmanager
def joined(cluster: Cluster, disk: Path, *, site: str | None = None, folder: Path) -> Iterator[str]:
    """Let a bad node join, whose processes run some code when they start; yield its id."""
    variables = {"FSSPEC_DIR": json.dumps(mounted(disk)), "NODE": "bad"}
    if site is not None:
        (folder / "sitecustomize.py").write_text(site)
        variables["PYTHONPATH"] = str(folder)
    node = cluster.add_node(num_cpus=1, env_vars=variables)
    try:
        yield node.node_id
    finally:
        cluster.remove_node(node)


def named(node_id):
    [found] = [node for node in ray.nodes() if node["NodeID"] == node_id]
    return f"{found['NodeManagerAddress']} ({found['NodeManagerHostname']})"


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (WITHOUT_PACKAGE, "cannot import nanotok_ray (ModuleNotFoundError: No module named "),
        (WITH_OTHER_VERSION, "has nanotok_ray 0.0.9 ("),
    ],
    ids=["missing", "other version"],
)
def test_a_node_without_this_package_is_refused_by_name_and_then_avoided(
    cluster, disks, tmp_path, site, reason
):
    shared = shared_folders(str(tmp_path / "out"), str(tmp_path / "work"))
    with joined(cluster, disks[0], site=site, folder=tmp_path) as bad:
        with pytest.raises(NodeError) as caught, ray_session(shared=shared):
            raise AssertionError("work began")
        head, line = str(caught.value).splitlines()
        assert head.startswith("1 of 2 nodes cannot run this job; install the same nanotok_ray on")
        assert line.startswith(f"  {named(bad)}: it {reason}")
        results, notes = ran(meet, tmp_path)
        assert set(results) == {"good"}
        [note] = notes
        assert note.startswith(f"{named(bad)} is avoided: it {reason}")
    assert [each for each in Folder(str(tmp_path)).list() if "probe" in each] == []


WITHOUT_LIBRARY = WITHOUT_PACKAGE.replace("nanotok_ray", "tokenizers")
WITH_OTHER_LIBRARY = WITH_OTHER_VERSION.replace("nanotok_ray", "tokenizers")


@pytest.mark.parametrize(
    ("site", "reason"),
    [
        (WITHOUT_LIBRARY, "found no package tokenizers (No module named 'tokenizers')"),
        (WITH_OTHER_LIBRARY, "found tokenizers 0.0.9"),
    ],
    ids=["missing", "other version"],
)
def test_a_node_with_another_library_that_encodes_is_refused_by_name_and_then_avoided(
    cluster, disks, tmp_path, site, reason
):
    library = SharedLibrary(f"tokenizers {metadata.version('tokenizers')}")
    advice = f"install {library.version} on every node"
    shared = (*shared_folders(str(tmp_path / "out"), str(tmp_path / "work")), library)
    with ray_session(shared=shared):
        pass
    with joined(cluster, disks[0], site=site, folder=tmp_path) as bad:
        with pytest.raises(NodeError) as caught, ray_session(shared=shared):
            raise AssertionError("work began")
        head, line = str(caught.value).splitlines()
        assert head.startswith(f"1 of 2 nodes cannot run this job; {advice}")
        assert line == f"  {named(bad)}: {reason}"
        results, notes = ran(meet, tmp_path, shared=(library,))
        assert set(results) == {"good"}
        [note] = notes
        assert note.startswith(f"{named(bad)} is avoided: {reason}; {advice}")


RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["dir://in/text/*.parquet"]
[output]
path = "{out}"
"""


def test_a_source_that_a_node_does_not_see_is_refused_by_name(cluster, disks, tmp_path):
    write_corpus(disks[0] / "in")
    plan = decide(parse_recipe(RECIPE.format(out=tmp_path / "out"))).plan
    shared = (*shared_folders(str(tmp_path / "out"), str(tmp_path / "work")), *shared_sources(plan))
    with ray_session(shared=shared):
        pass
    with joined(cluster, disks[1], folder=tmp_path) as bad:
        with pytest.raises(SharedFolderError) as caught, ray_session(shared=shared):
            raise AssertionError("work began")
        head, line = str(caught.value).splitlines()
        assert head.startswith("source 'web' cannot be read on 1 of 2 nodes; check its address")
        assert line.startswith(f"  {named(bad)}: ")
        assert "dir://in/text/shard_00000.parquet" in line


def wait_for(path):
    while not path.exists():
        time.sleep(0.02)


def meet(folder):
    """Return the node, after the driver has noted something of the other one."""
    wait_for(Path(folder, "noted"))
    return os.environ["NODE"]


def ran(work, folder, *, count=40, **task):
    """Run tasks on a folder; return the nodes of their results, and the notes."""
    notes = []

    def note(text):
        notes.append(text)
        (folder / "noted").touch()

    tasks = [
        Task(
            name=f"slice {number}",
            work=work,
            argument=str(folder),
            num_bytes=0,
            **task,
        )
        for number in range(count)
    ]
    ended = list(RayExecutor().run(tasks, retry_policy=QUICK, listener=TaskListener(on_note=note)))
    assert [each.error for each in ended] == [None] * count
    return [each.result for each in ended], notes


def test_a_node_that_joins_without_access_to_a_folder_is_avoided(cluster, disks, tmp_path):
    shared = (SharedFolder(url="dir://out", probes="run/probe"),)
    with joined(cluster, disks[1], folder=tmp_path) as bad:
        results, notes = ran(meet, tmp_path, shared=shared)
        assert set(results) == {"good"}
        [note] = notes
        assert note.startswith(f"{named(bad)} is avoided: dir://out is not one folder for all")
    assert Folder("dir://out").list() == []


def look_into(folder):
    """Read a file that only the good node has, after the bad node has failed to."""
    if os.environ["NODE"] == "bad":
        return Path(folder, "only on the good node").read_text()
    return meet(folder)


def test_a_slice_whose_file_a_node_lacks_is_tried_on_another_one(cluster, disks, tmp_path):
    with joined(cluster, disks[1], folder=tmp_path) as bad:
        results, notes = ran(look_into, tmp_path, count=4)
        assert set(results) == {"good"}
        assert "its node may lack a file, a package or a permission: " in notes[0]
        assert notes[0].endswith(f" (on {named(bad)})")


def test_a_stage_reports_the_size_of_the_cluster(cluster, disks, tmp_path):
    events = []
    tasks = [Task(name="slice", work=len, argument="abc", num_bytes=1)]
    runtime = Runtime(RayExecutor(), on_event=events.append)
    run_stage("count", tasks, runtime, num_done=0)
    with joined(cluster, disks[0], folder=tmp_path):
        run_stage("count", tasks, runtime, num_done=0)
    sizes = [(event.cpus, event.nodes) for event in events if isinstance(event, ClusterSize)]
    assert [size for size, _ in groupby(sizes)] == [(1, 2), (2, 3)]  # a long stage repeats it
