"""The scheduler's pace: stragglers, speculative attempts, batches."""

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.job import RetryPolicy, StragglerDetector, Task, TaskBatch
from nanotok_ray.job.scheduler import (
    BATCHES_PER_CPU,
    MAX_BYTES,
    MAX_SLICES,
    MIN_BYTES,
    MIN_CPUS,
    groups,
    weight,
)

MIB = 1 << 20


def call_of(size, *, other_attempt=None):
    return TaskBatch(slices=(0,), num_bytes=size, weight=size, other_attempt=other_attempt)


def pace_after(*calls):
    """Return a pace after calls have ended: (bytes, seconds)."""
    pace = StragglerDetector(RetryPolicy())
    for size, seconds in calls:
        call = call_of(size)
        pace.began(call, 0.0, cpus=4)
        pace.left(call, seconds, cpus=4, seconds=seconds)
    return pace


@pytest.mark.parametrize(
    ("seconds", "size", "expected"), [(20.0, 100, 61), (20.0, 1000, 601), (0.1, 100, 31)]
)
def test_a_call_is_overdue_after_three_times_its_expected_duration_and_a_minimum(
    seconds, size, expected
):
    pace = pace_after(*[(100 * MIB, seconds)] * 10)
    pace.began(call_of(size * MIB), 0.0, cpus=4)
    assert next(second for second in range(100_000) if pace.overdue(second)) == expected


def test_the_time_of_a_call_starts_when_a_cpu_is_free():
    pace = pace_after((MIB, 1.0))
    calls = [call_of(MIB) for _ in range(3)]
    for call in calls:
        pace.began(call, 0.0, cpus=2)
    assert pace.overdue(1000.0) == calls[:2]
    pace.left(calls[0], 1000.0, cpus=2)
    pace.left(calls[1], 1000.0, cpus=2)
    assert pace.overdue(1030.0) == []
    assert pace.overdue(1031.0) == [calls[2]]


def test_the_longest_running_are_first_and_none_is_attempted_a_third_time():
    pace = pace_after((MIB, 1.0))
    calls = [call_of(MIB) for _ in range(3)]
    for since, call in enumerate(calls):
        pace.began(call, float(since), cpus=5)
    assert pace.overdue(31.5) == calls[:2]
    calls[0].other_attempt = call_of(MIB, other_attempt=calls[0])
    pace.began(calls[0].other_attempt, 100.0, cpus=5)
    assert pace.overdue(1000.0) == calls[1:]


def past(pace, now):
    return [call for call, _ in pace.past_deadline(now)]


@given(st.lists(st.integers(1, 100 << 30), min_size=1, max_size=20), st.integers(1, 5))
def test_no_call_is_given_up_before_an_hour_per_started_gibibyte(sizes, cpus):
    pace = StragglerDetector(RetryPolicy())
    calls = [call_of(size) for size in sizes]
    for call in calls:
        pace.began(call, 0.0, cpus=cpus)
    for call in calls[:cpus]:
        hours = -(-call.num_bytes // (1 << 30))
        assert call not in past(pace, hours * 3600.0)
        assert call in past(pace, hours * 3600.0 + 1)
    assert not set(calls[cpus:]) & set(past(pace, 1e9))  # they wait for a CPU


def test_a_second_attempt_has_its_own_deadline():
    pace = StragglerDetector(RetryPolicy(deadline=10.0))
    first = call_of(MIB)
    first.other_attempt = call_of(MIB, other_attempt=first)
    pace.began(first, 0.0, cpus=2)
    pace.began(first.other_attempt, 5.0, cpus=2)
    assert pace.past_deadline(11.0) == [(first, 10.0)]
    assert past(pace, 16.0) == [first, first.other_attempt]


def test_calls_that_need_several_cpus_are_assumed_to_run_if_no_other_waits():
    pace = StragglerDetector(RetryPolicy(deadline=10.0))
    first, large, second = (call_of(MIB) for _ in range(3))
    pace.began(first, 0.0, cpus=2)
    pace.began(large, 0.0, cpus=2, wanted=2)
    pace.began(second, 0.0, cpus=2)
    assert pace.num_busy == 2
    pace.left(first, 5.0, cpus=2)
    assert pace.num_busy == 1
    pace.left(second, 6.0, cpus=2)
    assert pace.num_busy == 2
    assert (past(pace, 16.0), past(pace, 17.0)) == ([], [large])  # since a CPU was free
    pace.left(large, 17.0, cpus=2)
    pace.began(larger := call_of(MIB), 20.0, cpus=1, wanted=4)  # more than exist
    assert past(pace, 31.0) == [larger]
    pace.left(larger, 31.0, cpus=1)
    assert pace.num_busy == 0


def tasks_of(sizes):
    return [
        Task(name=str(number), work=len, argument="", num_bytes=size)
        for number, size in enumerate(sizes)
    ]


sizes = st.lists(st.integers(0, 5 << 30) | st.integers(0, 2 << 20), max_size=300)


@given(sizes, st.integers(1, 5000))
def test_every_task_is_in_one_call_in_order_and_calls_fill_their_share_without_exceeding_it(
    own, cpus
):
    tasks = tasks_of(own)
    calls = list(groups(tasks, cpus=cpus))
    by_size = sorted(tasks, key=weight, reverse=True)
    assert [task for call in calls for task in call] == by_size
    left = sum(map(weight, tasks))
    for call, following in zip_longest(calls, calls[1:]):
        size = sum(map(weight, call))
        share = max(MIN_BYTES, min(MAX_BYTES, left // (BATCHES_PER_CPU * max(cpus, MIN_CPUS))))
        assert len(call) == 1 or size <= share
        assert len(call) <= MAX_SLICES
        if following and len(call) < MAX_SLICES:  # otherwise there is no room for another task
            assert size + weight(following[0]) > share
        left -= size


def test_batches_of_a_terabyte_are_limited_in_size_and_in_number():
    calls = [sum(map(weight, call)) for call in groups(tasks_of([256 << 20] * 4096), cpus=64)]
    assert max(calls) == 4 << 30
    assert calls == sorted(calls, reverse=True)
    assert calls[-256:] == [256 << 20] * 256
    assert len(calls) < 1200
