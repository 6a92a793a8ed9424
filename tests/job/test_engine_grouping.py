"""Slices in calls: every slice once, in order; calls get smaller, none exceeds its limit."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.job import Task
from nanotok_ray.job.scheduler import (
    BATCHES_PER_CPU,
    LEAST_BYTES,
    LEAST_CPUS,
    MAX_BYTES,
    MAX_SLICES,
    groups,
    weight,
)


def tasks_of(sizes):
    return [
        Task(name=str(number), work=len, argument="", num_bytes=size)
        for number, size in enumerate(sizes)
    ]


sizes = st.lists(st.integers(0, 5 << 30) | st.integers(0, 2 << 20), max_size=300)


@given(sizes, st.integers(1, 5000))
def test_every_task_is_in_one_call_in_order_and_no_call_exceeds_its_share(own, cpus):
    tasks = tasks_of(own)
    calls = list(groups(tasks, cpus=cpus))
    by_size = sorted(tasks, key=weight, reverse=True)
    assert [task for call in calls for task in call] == by_size
    left = sum(map(weight, tasks))
    for call in calls:
        size = sum(map(weight, call))
        share = max(LEAST_BYTES, min(MAX_BYTES, left / (BATCHES_PER_CPU * max(cpus, LEAST_CPUS))))
        assert len(call) == 1 or size <= share
        assert len(call) <= MAX_SLICES
        left -= size


@given(sizes, st.integers(1, 5000))
def test_no_call_has_room_for_the_next_task(own, cpus):
    calls = list(groups(tasks_of(own), cpus=cpus))
    left = sum(weight(task) for call in calls for task in call)
    for call, following in pairwise(calls):
        share = max(LEAST_BYTES, min(MAX_BYTES, left // (BATCHES_PER_CPU * max(cpus, LEAST_CPUS))))
        more = sum(map(weight, call)) + weight(following[0])
        assert more > share or len(call) == MAX_SLICES
        left -= sum(map(weight, call))


def test_batches_of_a_terabyte_are_limited_in_size_and_in_number():
    calls = [sum(map(weight, call)) for call in groups(tasks_of([256 << 20] * 4096), cpus=64)]
    assert max(calls) == 4 << 30
    assert calls == sorted(calls, reverse=True)
    assert calls[-256:] == [256 << 20] * 256
    assert len(calls) < 1200
