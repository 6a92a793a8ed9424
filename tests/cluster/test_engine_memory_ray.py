"""A slice that needs more memory than its node has is named in the end and affects no other."""

import mmap

import pytest
from ray._common.utils import get_system_memory
from ray._private.utils import get_used_memory

from nanotok_ray.cluster import RayExecutor, ray_session
from nanotok_ray.job import Task

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]

MARGIN_BYTES, BLOCK_BYTES, MOST_BLOCKS = 5 << 29, 256 << 20, 32
TAKEN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


@pytest.fixture(autouse=True)
def session(monkeypatch):
    """Start a Ray that kills workers when 2.5 GiB more than now are in use."""
    threshold = (get_used_memory() + MARGIN_BYTES) / get_system_memory()
    monkeypatch.setenv("RAY_memory_usage_threshold", f"{threshold:.4f}")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "50")
    with ray_session(cpus=2):
        yield


def take_memory(argument):
    """Allocate memory until this worker is killed, at most eight gibibytes."""
    blocks = []
    while argument == "hungry" and len(blocks) < MOST_BLOCKS:
        blocks.append(mmap.mmap(-1, BLOCK_BYTES, flags=TAKEN))
    return 1


def test_a_slice_too_large_for_every_node_is_named_and_the_others_finish():
    tasks = [
        Task(name=f"slice {argument}", work=take_memory, argument=argument, num_bytes=0)
        for argument in ("a", "hungry", "c")
    ]
    notes = []
    # With the waits of a job: the memory of a killed worker is released with a delay.
    ended = {each.task.argument: each for each in RayExecutor().run(tasks, on_note=notes.append)}
    assert {name: each.result for name, each in ended.items()} == {"a": 1, "hungry": None, "c": 1}
    assert ended["hungry"].attempts >= 4  # more if others on this machine take memory meanwhile
    error = ended["hungry"].error
    assert error.startswith("its node ran out of memory 3 times, though more was kept free")
    assert "limits.slice_bytes" in error
    assert "slice a and 2 more, 3 slices: its node ran out of memory" in notes[0]
